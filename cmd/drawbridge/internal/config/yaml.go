package config

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// This file is the only door to the YAML library. Only its parser is used, never its decoder: that stops at the first
// fault, quotes the lines around it (which may hold secrets) and expands anchors without a bound.
//
// The parser calls itself for each level of nesting and also for each further key of a block mapping, whose members it
// copies each time, and a value that is left out moves all tokens behind it. A large file would take it hours, or
// overflow the stack, which ends the process. So the nesting is bounded on the tokens before it runs, and what is large
// is given to it in pieces: member by member and item by item.

const (
	maxConfigBytes = 16 << 20 // of the config and the files it includes, together
	maxFileBytes   = 16 << 20 // of a file that the config names
	maxConfigDepth = 32
	maxTabLine     = 64 << 10 // bytes of a line with a tab: the scanner looks at the rest of the line for each tab
	pieceTokens    = 500      // above which what the parser gets is divided
)

// parseYAML reads the one document of a file into nodes. It returns nil when the text is no such document; the reader
// holds why.
func (r *reader) parseYAML(data []byte) *node {
	start := &node{file: r.file, line: 1, col: 1}
	r.bytes += len(data)
	switch {
	case len(data) > maxConfigBytes:
		r.fault(start, "the file is larger than 16 MiB")
		return nil
	case r.bytes > maxConfigBytes:
		r.fault(start, "with this file the config is larger than 16 MiB")
		return nil
	case !utf8.Valid(data):
		r.fault(start, "the file is not UTF-8 text")
		return nil
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	text = strings.ReplaceAll(text, "\r\n", "\n") // the scanner would keep breaks in quotes that are folded to spaces
	if line := tabbedLine(text); line > 0 {
		r.fault(&node{file: r.file, line: line, col: 1}, "a tab in a line of more than 64 KiB; write spaces, or \\t in double quotes")
		return nil
	}
	tokens, err := scan(text)
	if err != nil {
		r.syntaxFault(err)
		return nil
	}
	if !r.checkTokens(tokens) {
		return nil
	}
	tokens = r.oneDocument(tokens)
	if len(tokens) == 0 {
		if len(r.problems) == 0 {
			r.fault(start, "the file is empty")
		}
		return nil
	}
	return r.block(tokens, pieceTokens)
}

// tabbedLine returns the number of the first line that is too long to hold a tab and does, 0 when there is none.
func tabbedLine(text string) int {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if len(line) > maxTabLine && strings.Contains(line, "\t") {
			return number
		}
	}
	return 0
}

// scan returns the tokens of a text without its comments, to the first that is invalid.
func scan(text string) (tokens token.Tokens, err error) {
	defer contain(&err)
	var s scanner.Scanner
	s.Init(text)
	all, _ := s.Scan() // what is wrong is the last token, of InvalidType
	tokens = all[:0]
	for _, t := range all {
		if t.Type != token.CommentType {
			tokens = append(tokens, t)
		}
	}
	return tokens, nil
}

// errUnreadable is said of what the library does not explain.
var errUnreadable = errors.New("this cannot be read as YAML")

// contain turns a panic of the library into an error: a reload must survive whatever is in the file.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = errUnreadable
	}
}

// oneDocument returns the tokens of the document without the marks of its beginning and end, none after a fault.
func (r *reader) oneDocument(tokens token.Tokens) token.Tokens {
	if len(tokens) > 0 && tokens[0].Type == token.DocumentHeaderType {
		tokens = tokens[1:]
	}
	end := len(tokens)
	for i, t := range tokens {
		mark := t.Type == token.DocumentHeaderType || t.Type == token.DocumentEndType
		if !mark && i > end {
			r.fault(r.nodeAt(t), "a second document; the config is one document")
			return nil
		}
		if mark {
			end = min(end, i)
		}
	}
	return tokens[:end]
}

// block reads the tokens of one value, which it may clear. A mapping or list in block form of more tokens than most is
// read part by part. It returns nil after a fault.
func (r *reader) block(tokens token.Tokens, most int) *node {
	switch {
	case len(tokens) <= most:
		return r.piece(tokens)
	case isKey(tokens, 0):
		out := r.nodeAt(tokens[0])
		out.kind = mapping
		for part := range divided(tokens, isKey) {
			if !r.blockMember(out, part, most) {
				return nil
			}
		}
		return out
	case tokens[0].Type == token.SequenceEntryType:
		out := r.nodeAt(tokens[0])
		out.kind = list
		for part := range divided(tokens, isEntry) {
			item := r.block(part[1:], most)
			if item == nil {
				return nil
			}
			out.items = append(out.items, item)
		}
		return out
	}
	return r.piece(tokens)
}

// blockMember reads one key of a mapping with its value: key, colon and the rest.
func (r *reader) blockMember(into *node, tokens token.Tokens, most int) bool {
	key, rest := tokens[0], tokens[2:]
	below := len(rest) > 0 && rest[0].Position.Line > key.Position.Line &&
		(rest[0].Position.Column > key.Position.Column || isEntry(rest, 0) && rest[0].Position.Column == key.Position.Column)
	if len(tokens) > most && below {
		value := r.block(rest, most)
		into.members = append(into.members, member{name: key.Value, key: r.nodeAt(key), value: value})
		return value != nil
	}
	n := r.piece(tokens)
	if n != nil && n.kind != mapping {
		r.fault(n, "%s", errUnreadable)
		return false
	}
	if n != nil {
		into.members = append(into.members, n.members...)
	}
	return n != nil
}

// divided yields tokens in parts that begin as the first does: in its column and outside brackets. It clears each part
// afterwards, so that the tokens of a large file do not all live as long as the last of them.
func divided(tokens token.Tokens, begins func(token.Tokens, int) bool) func(yield func(token.Tokens) bool) {
	return func(yield func(token.Tokens) bool) {
		start, open, column := 0, 0, tokens[0].Position.Column
		for i, t := range tokens {
			if i > start && open == 0 && t.Position.Column == column && begins(tokens, i) {
				if !yield(tokens[start:i]) {
					return
				}
				clear(tokens[start:i])
				start = i
			}
			open += bracket(t)
		}
		yield(tokens[start:])
	}
}

// piece lets the library parse tokens that it can cope with. It returns nil after a fault.
func (r *reader) piece(tokens token.Tokens) *node {
	file, err := parseTokens(tokens)
	if err == nil && (len(file.Docs) == 0 || file.Docs[0].Body == nil) {
		err = errUnreadable
	}
	if err != nil {
		r.syntaxFault(err)
		return nil
	}
	return r.convert(file.Docs[0].Body)
}

func parseTokens(tokens token.Tokens) (file *ast.File, err error) {
	defer contain(&err)
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// syntaxFault records the parser's error without the excerpt that it carries, in plain words.
func (r *reader) syntaxFault(err error) {
	var positioned yaml.Error
	if !errors.As(err, &positioned) || positioned.GetToken() == nil {
		r.fault(&node{file: r.file, line: 1, col: 1}, "%s", errUnreadable)
		return
	}
	t := positioned.GetToken()
	r.fault(r.nodeAt(t), "%s", syntaxWords(t, positioned.GetMessage()))
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

// setText makes n a scalar and expands variables in it. That happens after parsing, so that no value of a variable can
// change the structure of the file.
func (r *reader) setText(n *node, raw string) {
	n.kind, n.raw, n.text = scalar, raw, raw
	if !strings.Contains(raw, "${") {
		return
	}
	n.expanded = true
	text, defaulted, err := expand(raw, r.env)
	if err != nil {
		n.broken = err.Error() // not reported yet: not every command needs all of the file
		return
	}
	n.text, n.defaulted = text, defaulted
}

// faultBroken records each variable in n, and in what is below n, that could not be expanded.
func (r *reader) faultBroken(n *node) {
	if n.broken != "" {
		r.fault(n, "%s", n.broken)
	}
	for _, m := range n.members {
		r.faultBroken(m.value)
	}
	for _, item := range n.items {
		r.faultBroken(item)
	}
}
