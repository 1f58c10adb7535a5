package config

import (
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// This file and syntax.go alone use the YAML library, and of it only the scanner, which
// makes tokens of the text.
//
// Its decoder stops at the first problem, quotes the lines around it (which may hold
// secrets), and expands anchors without a bound, so that a small file could fill the
// memory. Its parser takes time and memory that grow with the square of the number of
// keys: of a file of 245 KiB with 32,000 keys 49 s and 4 GiB. So the tokens become nodes
// here:
//
//	bytes --scan--> tokens --oneDocument--> those of the config --parser--> nodes

// parseYAML reads the one document of a file into nodes. It returns nil when the text is
// no such document; then at least one problem says why.
func (r *reader) parseYAML(file string, data []byte) *node {
	p, start := &parser{r: r, file: file}, &node{file: file, line: 1, col: 1}
	if r.faultFirst(
		wrong{
			len(data) > maxPartBytes, start,
			"the file is larger than 1 MiB; put tenants into other files, and name these under include",
		},
		wrong{r.bytes > maxConfigBytes, start, "with this file the config is larger than 16 MiB"},
		wrong{!utf8.Valid(data), start, "the file is not UTF-8 text"}) {
		return nil
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	// the scanner would keep breaks in quotes that are folded to spaces
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if line := tabbedLine(text); line > 0 {
		r.fault(&node{file: file, line: line, col: 1},
			"a tab in a line of more than 64 KiB; write spaces, or \\t in double quotes")
		return nil
	}
	tokens, err := scan(text)
	if err != nil {
		r.fault(start, "%s", err)
		return nil
	}
	if !p.checkTokens(tokens) {
		return nil
	}
	if tokens = p.oneDocument(tokens); len(tokens) == 0 {
		return nil
	}
	return p.document(tokens)
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
// would ignore settings that somebody wrote. None at all are a problem, too.
func (p *parser) oneDocument(tokens token.Tokens) token.Tokens {
	if len(tokens) > 0 && tokens[0].Type == token.DocumentHeaderType {
		tokens = tokens[1:]
	}
	end := len(tokens)
	for i, t := range tokens {
		mark := t.Type == token.DocumentHeaderType || t.Type == token.DocumentEndType
		if !mark && i > end {
			p.r.fault(p.nodeAt(t), "a second document; the config is one document")
			return nil
		}
		if mark {
			end = min(end, i)
		}
	}
	if end == 0 {
		p.r.fault(&node{file: p.file, line: 1, col: 1}, "the file is empty")
	}
	return tokens[:end]
}
