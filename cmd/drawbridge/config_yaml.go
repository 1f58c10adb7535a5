package main

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// This file is the only door to the YAML library. Only its parser is used, never its decoder: that stops at the first
// fault, quotes the lines around it (which may hold secrets) and expands anchors without a bound. The parser recurses, so depth is bounded
// on the tokens before it runs.

const (
	maxConfigBytes = 1 << 20
	maxFileBytes   = 16 << 20 // of a file that the config names
	maxConfigDepth = 32
)

// parseYAML reads the one document of a config file into nodes. It returns nil when the text is no such document; the reader holds why.
func (r *reader) parseYAML(data []byte) *node {
	start := &node{file: r.file, line: 1, col: 1}
	switch {
	case len(data) > maxConfigBytes:
		r.fault(start, "the file is larger than 1 MiB")
		return nil
	case !utf8.Valid(data):
		r.fault(start, "the file is not UTF-8 text")
		return nil
	}
	tokens := lexer.Tokenize(strings.TrimPrefix(string(data), "\ufeff"))
	if !r.checkTokens(tokens) {
		return nil
	}
	file, err := parseTokens(tokens)
	if err != nil {
		r.syntaxFault(err)
		return nil
	}
	if len(file.Docs) > 1 && file.Docs[1].Body != nil {
		r.fault(r.nodeAt(file.Docs[1].Body.GetToken()), "a second document; the config is one document")
		return nil
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		r.fault(start, "the file is empty")
		return nil
	}
	return r.convert(file.Docs[0].Body)
}

// parseTokens contains a panic of the library: a reload must survive whatever is in the file.
func parseTokens(tokens token.Tokens) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("this cannot be read as YAML")
		}
	}()
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// checkTokens refuses what the format does not use (anchors, aliases, tags, directives, complex keys) and what nests too deep.
func (r *reader) checkTokens(tokens token.Tokens) bool {
	before := len(r.problems)
	flow, dashes, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, dashes = t.Position.Line, 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			r.fault(r.nodeAt(t), "anchors, aliases and merges are not used here; put quotes around a text that begins with & or *")
		case token.TagType, token.DirectiveType:
			r.fault(r.nodeAt(t), "tags and directives are not used here; put quotes around a text that begins with ! or %%")
		case token.MappingKeyType:
			r.fault(r.nodeAt(t), "complex keys are not used here; put quotes around a text that begins with ?")
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType:
			dashes++
		default:
		}
		if flow > maxConfigDepth || dashes > maxConfigDepth || t.Position.Column > 1000*maxConfigDepth {
			r.fault(r.nodeAt(t), "more than %d levels deep", maxConfigDepth)
			return false
		}
	}
	return len(r.problems) == before
}

// syntaxFault records the parser's error without the excerpt that it carries.
func (r *reader) syntaxFault(err error) {
	var positioned yaml.Error
	if !errors.As(err, &positioned) || positioned.GetToken() == nil {
		r.fault(&node{file: r.file, line: 1, col: 1}, "this cannot be read as YAML")
		return
	}
	t := positioned.GetToken()
	text := strings.Join(strings.Fields(positioned.GetMessage()), " ")
	if t.Prev != nil && t.Type == token.MappingStartType && strings.HasSuffix(t.Prev.Value, "$") {
		text = "inside { } or [ ] a value with ${…} needs quotes around it"
	}
	if t.Type == token.InvalidType && strings.Contains(t.Value, "\t") {
		text = "a tab where only spaces may stand"
	}
	r.fault(r.nodeAt(t), "%s", text)
}

// nodeAt returns an empty node at the place of t in the file that is read.
func (r *reader) nodeAt(t *token.Token) *node {
	return &node{file: r.file, line: max(1, t.Position.Line), col: max(1, t.Position.Column)}
}

func (r *reader) convert(n ast.Node) *node {
	out := r.nodeAt(n.GetToken())
	switch n := n.(type) {
	case *ast.MappingNode:
		out.kind = mapping
		for _, pair := range n.Values {
			out.members = append(out.members, r.convertPair(pair))
		}
	case *ast.MappingValueNode:
		out.kind = mapping
		out.members = []member{r.convertPair(n)}
	case *ast.SequenceNode:
		out.kind = list
		for _, item := range n.Values {
			out.items = append(out.items, r.convert(item))
		}
	case *ast.NullNode:
		out.kind = null
	case *ast.StringNode:
		r.setText(out, n.Value)
	case *ast.LiteralNode:
		r.setText(out, n.Value.Value)
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		r.setText(out, n.GetToken().Value)
	default:
		r.fault(out, "%s is not used here", strings.ToLower(n.Type().String()))
	}
	if out.kind == mapping && len(out.members) > 0 {
		out.line, out.col = out.members[0].key.line, out.members[0].key.col // the library points at the first colon
	}
	return out
}

func (r *reader) convertPair(pair *ast.MappingValueNode) member {
	t := pair.Key.GetToken()
	if pair.Value == nil {
		return member{name: t.Value, key: r.nodeAt(t), value: &node{kind: null, file: r.file, line: t.Position.Line, col: t.Position.Column}}
	}
	return member{name: t.Value, key: r.nodeAt(t), value: r.convert(pair.Value)}
}

// setText makes n a scalar and expands variables in it. That happens after parsing, so no value can change the structure of the file.
func (r *reader) setText(n *node, raw string) {
	n.kind, n.raw, n.text = scalar, raw, raw
	if !strings.Contains(raw, "${") {
		return
	}
	n.expanded = true
	text, defaulted, err := expand(raw, r.env)
	if err != nil {
		r.fault(n, "%s", err)
		n.broken = true
		return
	}
	n.text, n.defaulted = text, defaulted
}
