package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// This file reads JSON as editors write it into their settings: with comments (// and /*
// */) and with a comma after the last member. Both are overwritten with blanks, byte for
// byte, and what is left must be strict JSON. So every other byte keeps its place, for
// messages, and package strictjson alone decides what JSON is.

// parseJSONC reads one JSON value into nodes. Variables in its texts are not replaced,
// because clients write them in ways of their own; see clientFile.expand. The error is a
// RefusedError with one problem.
func parseJSONC(file string, data []byte) (*node, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	at := &walker{file: file, text: data, line: 1, col: 1}
	refuse := func(offset int, text string) error {
		return RefusedError{at.node(min(offset, len(data))).problem(text)}
	}
	if len(data) > maxFileBytes {
		return nil, refuse(0, "the file is larger than 16 MiB")
	}
	plain, unclosed := plainJSON(data)
	if unclosed >= 0 {
		return nil, refuse(unclosed, "a comment that does not end; close it with */")
	}
	err := strictjson.Check(plain)
	if syntax, ok := errors.AsType[*strictjson.SyntaxError](err); ok {
		offset := int(syntax.Offset)
		if rest := bytes.TrimLeft(plain[offset:], " \t\r\n,"); bytes.HasPrefix(rest, []byte(`"`)) {
			offset = len(plain) - len(rest) // a name is refused at the end of what stands before it
		}
		return nil, refuse(offset, fmt.Sprintf(
			"this cannot be read: %s (comments and a comma after the last member may stand; all else is "+
				"strict JSON)", syntax.Reason))
	}
	if err != nil {
		return nil, refuse(0, err.Error())
	}
	return tree(plain, at), nil
}

// jsonComment is a text in quotes, perhaps without its end, a comment, or the beginning
// of one that does not end. Texts are there so that nothing in them is taken for the
// others.
var jsonComment = regexp.MustCompile(`(?s)"(?:\\.|[^"\\])*"?|//[^\n]*|/\*.*?\*/|/\*`)

// lastComma is a text in quotes, or a comma with a closing bracket behind it.
var lastComma = regexp.MustCompile(`(?s)"(?:\\.|[^"\\])*"?|,[ \t\r\n]*[}\]]`)

// plainJSON returns data with blanks in the place of comments and of commas before a
// closing bracket. unclosed is the offset of a comment that does not end, -1 when there
// is none.
func plainJSON(data []byte) (plain []byte, unclosed int) {
	plain = bytes.Clone(data)
	for _, at := range jsonComment.FindAllIndex(plain, -1) {
		switch part := plain[at[0]:at[1]]; {
		case string(part) == "/*":
			return nil, at[0]
		case part[0] == '/':
			blank(part)
		}
	}
	for _, at := range lastComma.FindAllIndex(plain, -1) {
		before := bytes.TrimRight(plain[:at[0]], " \t\r\n")
		// a comma is taken away only after a value: [,] is no list
		if plain[at[0]] == ',' && len(before) > 0 && !bytes.ContainsAny(before[len(before)-1:], "[{,:") {
			plain[at[0]] = ' '
		}
	}
	return plain, -1
}

// blank overwrites a comment but keeps its line breaks, so that the lines below it keep
// their numbers.
func blank(comment []byte) {
	for i, c := range comment {
		if c != '\n' {
			comment[i] = ' '
		}
	}
}

// walker turns offsets into lines and columns. The offsets must be asked for in ascending
// order, so that a file is walked through once however many nodes it has.
type walker struct {
	file              string
	text              []byte
	offset, line, col int
}

// node returns an empty node at the place of offset.
func (w *walker) node(offset int) *node {
	passed := w.text[w.offset:offset]
	if breaks := bytes.Count(passed, []byte("\n")); breaks > 0 {
		w.line += breaks
		w.col = 1
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	w.col += utf8.RuneCount(passed)
	w.offset = offset
	return &node{file: w.file, line: w.line, col: w.col}
}

// tree makes nodes of JSON that was checked. The stack open holds the lists and objects
// that have begun and not ended; each token belongs to the last of them. A list of its
// own at the bottom takes the outermost value.
func tree(plain []byte, at *walker) *node {
	top := &node{kind: list}
	open := []*node{top}
	for offset, token := range strictjson.Tokens(plain) {
		if token[0] == '}' || token[0] == ']' {
			open = open[:len(open)-1]
			continue
		}
		n := at.node(offset)
		switch in := open[len(open)-1]; {
		case in.kind == list:
			in.items = append(in.items, n)
		case len(in.members) == 0 || in.members[len(in.members)-1].value != nil:
			name, _ := strictjson.Unquote(token) // it was checked
			in.members = append(in.members, member{name: name, key: n})
			continue
		default:
			in.members[len(in.members)-1].value = n
		}
		if n.fill(token); n.kind == mapping || n.kind == list {
			open = append(open, n)
		}
	}
	return top.items[0]
}

// fill gives n the kind and the text of a token.
func (n *node) fill(token []byte) {
	n.kind = cmp.Or(map[byte]kind{'{': mapping, '[': list, 'n': null}[token[0]], scalar)
	if n.kind == scalar {
		n.text = string(token)
	}
	if token[0] == '"' {
		n.text, _ = strictjson.Unquote(token) // it was checked
	}
	n.raw = n.text
}
