package config

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// This file alone uses the YAML library's parser, which is dangerous in two ways.
//
// Only the parser of the library is used, never its decoder. The decoder stops at the
// first problem, quotes the lines around it (which may hold secrets), and expands anchors
// without a bound, so that a small file could fill the memory.
//
// The parser calls itself for each level of nesting and also for each further key of a
// block mapping, whose members it copies each time. For a value that is left out it moves
// all tokens behind it. So checkTokens bounds the nesting before the parser runs, and
// block gives a large file to the parser in pieces, member by member and item by item. Of
// a file of 245 KiB with 32,000 keys the parser takes 49 s and 4 GiB as a whole, and a
// third of a second and 67 MiB in pieces (two busy cores):
//
//	bytes --scan--> tokens --checkTokens--> sound tokens --block--> pieces of tokens
//	                                                                      |
//	                            nodes <--convert-- syntax tree <--parser--+

// parseYAML reads the one document of the file that the reader is at into nodes. It
// returns nil when the text is no such document; then at least one problem says why.
func (r *reader) parseYAML(data []byte) *node {
	start := &node{file: r.file, line: 1, col: 1}
	r.bytes += len(data)
	switch {
	case len(data) > maxPartBytes:
		r.fault(start,
			"the file is larger than 1 MiB; put tenants into other files, and name these under include")
		return nil
	case r.bytes > maxConfigBytes:
		r.fault(start, "with this file the config is larger than 16 MiB")
		return nil
	case !utf8.Valid(data):
		r.fault(start, "the file is not UTF-8 text")
		return nil
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	// the scanner would keep breaks in quotes that are folded to spaces
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if line := tabbedLine(text); line > 0 {
		r.fault(&node{file: r.file, line: line, col: 1},
			"a tab in a line of more than 64 KiB; write spaces, or \\t in double quotes")
		return nil
	}
	tokens, err := scan(text)
	if err != nil {
		r.syntaxFault(err, nil)
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

// tabbedLine returns the number of the first line that has a tab and more than maxTabLine
// bytes, counted from 1, or 0 when there is none.
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

// scan returns the tokens of a text without its comments. It ends at the first token that
// the scanner cannot read, which is then the last one and of InvalidType; only a panic of
// the library is an error.
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

// contain turns a panic of the library into an error. A reload reads whatever is in the
// file at that moment, and must not end a gateway that is serving. It is to be deferred.
func contain(err *error) {
	if p := recover(); p != nil {
		*err = errUnreadable
	}
}

// oneDocument returns the tokens between the marks --- and ... of the document, which may
// be left out. A second document is a problem, and then there are no tokens: ignoring it
// would ignore settings that somebody wrote.
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

// block reads the tokens of one value. A mapping or list in block form (without brackets)
// of more than most tokens is read part by part. Everything else goes to the parser
// whole, in brackets too. It may clear the tokens, so the caller must not use them again.
// It returns nil after a problem.
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

// blockMember reads one member of a block mapping, which is the tokens of key, colon and
// value. It divides the value further only if the value is long and begins on a line
// below its key. It returns false after a problem.
func (r *reader) blockMember(into *node, tokens token.Tokens, most int) bool {
	key, rest := tokens[0], tokens[2:]
	below := len(rest) > 0 && rest[0].Position.Line > key.Position.Line &&
		(rest[0].Position.Column > key.Position.Column || isEntry(rest, 0) &&
			rest[0].Position.Column == key.Position.Column)
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

// divided yields the tokens of a block mapping or list in parts, one for each member or
// item: a part begins at each token for which begins holds, in the column of the first
// token and outside brackets. It clears each part after use, so that the tokens of a
// large file do not all live as long as the last of them.
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

// piece gives tokens to the parser of the library, few enough for it. It returns nil
// after a problem.
func (r *reader) piece(tokens token.Tokens) *node {
	file, err := parseTokens(tokens)
	if err == nil && (len(file.Docs) == 0 || file.Docs[0].Body == nil) {
		err = errUnreadable
	}
	if err != nil {
		r.syntaxFault(err, tokens)
		return nil
	}
	return r.convert(file.Docs[0].Body)
}

// parseTokens calls the parser. Repeated keys pass here: entries reports them with the
// place of both, and goes on to further problems.
func parseTokens(tokens token.Tokens) (file *ast.File, err error) {
	defer contain(&err)
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// syntaxFault records an error of the library as a problem in plain words. It takes only
// position and message from the error, which also carries an excerpt of the file, where a
// secret may stand.
func (r *reader) syntaxFault(err error, tokens token.Tokens) {
	var positioned yaml.Error
	if !errors.As(err, &positioned) || positioned.GetToken() == nil {
		r.fault(&node{file: r.file, line: 1, col: 1}, "%s", errUnreadable)
		return
	}
	t := positioned.GetToken()
	text := syntaxMessage(t, positioned.GetMessage())
	same := func(one *token.Token) bool {
		return one.Position.Line == t.Position.Line && one.Position.Column == t.Position.Column
	}
	if i := slices.IndexFunc(tokens, same); i >= 0 {
		t, text = blamed(tokens[:i+1], text)
	}
	r.fault(r.nodeAt(t), "%s", text)
}

// convert makes nodes of the library's syntax tree. It keeps the spelling of numbers and
// truth values, so that a value such as 0123 or 1e3 is judged by the function that reads
// its key and not by the rules of YAML.
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
		// the library points at the first colon
		out.line, out.col = out.members[0].key.line, out.members[0].key.col
	}
	return out
}

// convertPair makes a member of a key with its value. A key without a value has a null,
// at the place of the key.
func (r *reader) convertPair(pair *ast.MappingValueNode) member {
	t := pair.Key.GetToken()
	if pair.Value == nil {
		return member{
			name: t.Value, key: r.nodeAt(t),
			value: &node{kind: null, file: r.file, line: t.Position.Line, col: t.Position.Column},
		}
	}
	return member{name: t.Value, key: r.nodeAt(t), value: r.convert(pair.Value)}
}

// setText makes n a scalar and replaces the variables in its text. It runs after parsing,
// so that the value of a variable cannot change the structure of the file, for example
// add a key by means of a line break.
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

// faultBroken records each variable in n, and in what is below n, that could not be
// expanded.
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
