package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// This file makes nodes of the tokens of a file, or says in plain words what does not
// fit: the commonest slips have words of their own.

// checkTokens refuses anchors, aliases, tags, directives and complex keys. It returns
// whether the tokens may be parsed.
func (p *parser) checkTokens(tokens token.Tokens) bool {
	before := len(p.r.problems)
	for i, t := range tokens {
		if text := unused(t.Type); text != "" && !p.r.full() { // blamed looks at the whole line before each
			t, text = blamed(tokens[:i+1], text)
			p.r.fault(p.nodeAt(t), "%s", text)
		}
	}
	return len(p.r.problems) == before
}

// document returns the node of the tokens of a document, nil after a problem. It may
// overwrite what follows the tokens.
func (p *parser) document(tokens token.Tokens) *node {
	end := &token.Token{Position: &token.Position{}}
	tokens = append(tokens, end)
	p.tokens = tokens
	root := p.value()
	if p.peek(0) != end {
		p.unexpected()
	}
	if p.failed {
		return nil
	}
	return root
}

// parser makes nodes of tokens, from the first to the last. It records the first token
// that does not fit, and takes all others for read then. A value in brackets is in flow
// form, any other in block form, where columns say what belongs together:
//
//	value ── mapping ── key, below it a value ─┐
//	  ├───── list ───── dash, a value ─────────┤
//	  ├───── flow ───── item, maybe with a key ┤
//	  └───── scalar                        value
type parser struct {
	r      *reader
	file   string
	tokens token.Tokens // and a last one, left of all others, that has no type
	at     int          // index of the next token
	failed bool         // a problem was recorded
	depth  int          // of mappings and lists around the next token
	left   int          // column of the key or dash in block form that was read last

	open []*token.Token // brackets that are open, the outermost first
	// The bracket of open that was probably never closed; nil: none. The sign of it is a
	// key inside brackets that stands no further right than the key that the bracket
	// belongs to. Whatever does not fit afterwards is reported at this bracket, where the
	// cause is, and not at the line where it shows.
	forgotten *token.Token
}

// peek returns the token that is so many after the next one.
func (p *parser) peek(n int) *token.Token { return p.tokens[min(p.at+n, len(p.tokens)-1)] }

// isKey tells whether the next token is the key of a mapping.
func (p *parser) isKey() bool { return isText(p.peek(0)) && p.peek(1).Type == token.MappingValueType }

// isEntry tells whether the next token is the dash that begins an item of a list.
func (p *parser) isEntry() bool { return p.peek(0).Type == token.SequenceEntryType }

// suspect looks whether the next token is the sign of a bracket that was forgotten.
func (p *parser) suspect() {
	if n := len(p.open); n > 0 && p.forgotten == nil && p.isKey() && p.peek(0).Position.Column <= p.left {
		p.forgotten = p.open[n-1]
	}
}

// fail records what is wrong with the next token, if nothing was wrong before.
func (p *parser) fail(text string) {
	if p.failed {
		return
	}
	p.suspect()
	t, text := blamed(p.tokens[:p.at+1], text)
	text = cmp.Or(misread(t), text)
	if p.forgotten != nil {
		t, text = p.forgotten, fmt.Sprintf("this %s is not closed", p.forgotten.Value)
	}
	p.r.fault(p.nodeAt(t), "%s", text)
	p.failed, p.at = true, len(p.tokens)
}

// value reads the value that the next token begins.
func (p *parser) value() *node {
	read := p.mapping
	switch {
	case p.isKey():
	case p.isEntry() && len(p.open) == 0:
		read = p.list
	case opens(p.peek(0)):
		read = p.flow
	default:
		return p.scalar()
	}
	out := p.nodeAt(p.peek(0))
	p.depth++
	if p.depth > maxConfigDepth {
		p.fail(fmt.Sprintf("more than %d levels deep", maxConfigDepth))
	}
	read(out)
	p.depth--
	return out
}

// mapping reads a mapping in block form, whose keys stand in one column.
func (p *parser) mapping(out *node) {
	out.kind = mapping
	p.left = p.peek(0).Position.Column
	for column := p.left; p.isKey() && p.peek(0).Position.Column == column; p.left = column {
		key := p.key("")
		out.members = append(out.members, member{name: key.Value, key: p.nodeAt(key), value: p.below(key)})
	}
}

// secondColon is the message about a key where the value of another must begin.
const secondColon = "a second colon in one value; put quotes around a text with a colon in it"

// key takes a key and its colon. wrong says why there may be none, "": there may.
func (p *parser) key(wrong string) *token.Token {
	t, n := p.peek(0), len(p.open)
	p.suspect()
	switch {
	case misread(t) != "":
		wrong = misread(t)
	case p.peek(1).Position.Line == t.Position.Line:
	case p.at > 0 && p.peek(-1).Type == token.MappingValueType &&
		p.peek(-1).Position.Line == t.Position.Line:
		wrong = "the line below this is indented too far: this key has its value already"
	case n > 0:
		wrong = fmt.Sprintf("a comma is missing after this, or the %s of line %d is not closed",
			p.open[n-1].Value, p.open[n-1].Position.Line)
	default:
		wrong = "a colon is missing in this line; each line here is key: value"
	}
	if wrong != "" {
		p.fail(wrong)
	}
	p.at += 2
	return t
}

// below reads the value of a key in block form, whose colon was taken. It stands behind
// the colon, or below the key and further right; a list may also stand in the column of
// the key. Where there is none, it is a null.
func (p *parser) below(key *token.Token) *node {
	t, colon := p.peek(0), p.peek(-1)
	behind := t.Position.Line == colon.Position.Line
	switch {
	case behind && p.isKey():
		p.key(secondColon)
	case behind && p.isEntry():
		p.fail("the items of a list begin on a line of their own, below their key")
	case t.Position.Column > key.Position.Column, t.Position.Column == key.Position.Column && p.isEntry():
		return p.value()
	}
	none := p.nodeAt(colon)
	none.kind, none.col = null, none.col+1
	return none
}

// list reads a list in block form, whose dashes stand in one column.
func (p *parser) list(out *node) {
	out.kind = list
	p.left = p.peek(0).Position.Column
	for column := p.left; p.isEntry() && p.peek(0).Position.Column == column; p.left = column {
		if p.peek(1).Position.Column <= column {
			p.fail("an item of a list is missing after this dash")
		}
		p.at++
		out.items = append(out.items, p.value())
	}
}

// flow reads a mapping or a list in brackets. A mapping stands where its first key does.
func (p *parser) flow(out *node) {
	start, closing := p.peek(0), token.SequenceEndType
	out.kind = list
	if start.Type == token.MappingStartType {
		out.kind, closing = mapping, token.MappingEndType
	}
	p.open = append(p.open, start)
	p.at++
	if out.kind == mapping && p.isKey() {
		first := p.nodeAt(p.peek(0))
		out.line, out.col = first.line, first.col
	}
	for !p.failed && p.peek(0).Type != closing {
		p.item(out)
		switch p.peek(0).Type {
		case closing:
		case token.CollectEntryType:
			p.at++
		default:
			p.unexpected()
		}
	}
	p.at++
	p.open = p.open[:len(p.open)-1]
	if p.forgotten == start {
		p.forgotten = nil
	}
}

// item reads a member of a mapping or an item of a list in brackets. An item that is
// key: value is a mapping of this member.
func (p *parser) item(in *node) {
	t := p.peek(0)
	switch {
	case p.isKey():
		if in.kind == list {
			one := p.nodeAt(t)
			one.kind, in.items = mapping, append(in.items, one)
			in = one
		}
		p.key("")
		if p.isKey() {
			p.key(secondColon)
		}
		in.members = append(in.members, member{name: t.Value, key: p.nodeAt(t), value: p.value()})
	case in.kind == mapping && (isText(t) || opens(t)):
		p.fail("a colon and a value are missing after this; between { } stands key: value")
	default:
		in.items = append(in.items, p.value())
	}
}

// scalar reads a text, a number or the like. A text after | or > is a token of its own.
func (p *parser) scalar() *node {
	t := p.peek(0)
	out := p.nodeAt(t)
	if t.Indicator == token.BlockScalarIndicator && len(p.open) == 0 {
		p.at++
		if t = p.peek(0); t.Type != token.StringType {
			p.r.setText(out, "")
			return out
		}
	}
	switch {
	case !isText(t):
		p.unexpected()
	case misread(t) != "":
		p.fail(misread(t))
	case t.Type == token.NullType:
		out.kind = null
	default:
		p.r.setText(out, t.Value)
	}
	p.at++
	return out
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
	var err error
	if n.text, n.defaulted, err = expand(raw, r.env); err != nil {
		n.broken = err.Error() // reported where it is read: not every command needs all of the file
	}
}

// unexpected records that the next token may not stand where it does.
func (p *parser) unexpected() {
	t, text := p.peek(0), "a comma is missing before this"
	var around *token.Token // the innermost bracket
	if n := len(p.open); n > 0 {
		around = p.open[n-1]
	}
	switch {
	case t.Type == token.InvalidType:
		text = invalidMessage(t)
	case around == nil && (strings.HasPrefix(t.Value, "}") || strings.HasPrefix(t.Value, "]")):
		text = fmt.Sprintf("this %.1s closes nothing", t.Value)
	case t.Type == token.MappingValueType:
		text = "a name is missing before this colon"
	case around == nil && p.at > 2 && p.peek(-2).Type == token.MappingValueType &&
		p.peek(-3).Position.Column < t.Position.Column:
		text = "this is indented below a key that has its value already; is a colon or a quote missing?"
	case around == nil:
		text = "this does not fit the lines above: look at its indentation, and whether a colon is missing"
	case t.Type == token.UnknownType: // the end
		p.forgotten = cmp.Or(p.forgotten, around)
	case closes(t) && (around.Type == token.MappingStartType) != (t.Type == token.MappingEndType):
		text = fmt.Sprintf("this %s stands where the %s of line %d must be closed first", t.Value,
			around.Value, around.Position.Line)
	case closes(t):
		text = fmt.Sprintf("a value is missing before this %s", t.Value)
	case t.Type == token.CollectEntryType:
		text = "a value is missing before this comma"
	case p.isEntry():
		text = "inside { } or [ ] the items of a list have no dash; put quotes around a text that " +
			"begins with one"
	case t.Type == token.MappingStartType && strings.HasSuffix(p.peek(-1).Value, "$"):
		text = "inside { } or [ ] a value with ${…} needs quotes around it"
	}
	p.fail(text)
}

// blamed returns where the cause of a problem at the last of the tokens stands, and what
// it is. A text in quotes may go over several lines, but where what follows it in its
// last line makes no sense, its first quote was probably never closed, and what closed it
// was to open another.
func blamed(tokens token.Tokens, text string) (*token.Token, string) {
	t := tokens[len(tokens)-1]
	for _, q := range slices.Backward(tokens[:len(tokens)-1]) {
		more := 0
		if q.Type == token.SingleQuoteType || q.Type == token.DoubleQuoteType {
			more = strings.Count(strings.TrimSpace(q.Origin), "\n")
		}
		switch {
		case q.Position.Line+more < t.Position.Line:
			return t, text
		case more > 0:
			return q, "this quote is not closed in its line"
		}
	}
	return t, text
}

// unused returns why a config has no use for tokens of that kind, and "" for the kinds
// that it uses.
func unused(kind token.Type) string {
	switch kind {
	case token.AnchorType, token.AliasType, token.MergeKeyType:
		return "anchors, aliases and merges are not used here; put quotes around a text that begins with & " +
			"or *"
	case token.TagType, token.DirectiveType:
		return "tags and directives are not used here; put quotes around a text that begins with ! or %"
	case token.MappingKeyType:
		return "complex keys are not used here; put quotes around a text that begins with ?"
	default:
		return ""
	}
}

// misread says why a text without quotes is not what it looks like; "": it is. The
// library drops a tab from it: "deny<tab>_all" would be read as the name deny_all.
func misread(t *token.Token) string {
	quoted := t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
	switch {
	case quoted:
	case strings.Contains(strings.TrimSpace(t.Origin), "\t") && !strings.Contains(t.Value, "\t"):
		return `a tab in a text without quotes; write a space, or \t in double quotes`
	case strings.Contains(t.Value, "\u00a0"):
		return "a no-break space (U+00A0), which looks like a space and is none; write a space"
	}
	return ""
}

// isText tells whether t is a text, a number or the like, and no sign of the syntax.
func isText(t *token.Token) bool {
	return (t.Indicator == token.NotIndicator || t.Indicator == token.QuotedScalarIndicator) &&
		t.Type != token.InvalidType && t.Type != token.UnknownType
}

// opens tells whether t is a bracket that opens.
func opens(t *token.Token) bool {
	return t.Type == token.MappingStartType || t.Type == token.SequenceStartType
}

// closes tells whether t is a bracket that closes.
func closes(t *token.Token) bool {
	return t.Type == token.MappingEndType || t.Type == token.SequenceEndType
}

// invalidMessage says what is wrong with a token that the scanner cannot read.
func invalidMessage(t *token.Token) string {
	if strings.Contains(t.Value, "\t") {
		return "a tab where only spaces may stand"
	}
	return plainMessage(t.Error)
}

// plainMessage returns our words for a message of the scanner. It searches the text of
// the message, which is all that the library gives away about the cause. When a new
// version of the library words a message differently, the result is the general message
// at the end, and no problem is lost.
func plainMessage(text string) string {
	for _, known := range []struct{ theirs, ours string }{
		{"could not find end character of", "this quote is not closed"},
		{"tab character", "a tab where only spaces may stand"},
		{"is a reserved character", "a text that begins with @ or ` needs quotes around it"},
		{
			"found unknown escape character",
			`inside double quotes a \ begins an escape like \n, and this is none; write \\ or use single quotes`,
		},
		{"escaped UTF-", `an escape of a character is cut short`},
		{"surrogate", `an escape of a character is only half of it`},
		{"unexpected document separator", "a quote is not closed before this mark of a new document"},
		{"could not find multi-line content", "a text is missing after | or >, indented below it"},
		{"invalid header option", "after | and > may only stand -, + and a digit"},
	} {
		if strings.Contains(text, known.theirs) {
			return known.ours
		}
	}
	return errUnreadable.Error() + "; look at the indentation, quotes, colons and brackets before it"
}

// nodeAt returns an empty node at the place of t.
func (p *parser) nodeAt(t *token.Token) *node {
	return &node{file: p.file, line: max(1, t.Position.Line), col: max(1, t.Position.Column)}
}

// errUnreadable stands in for errors of the library that have no plain words of ours, and
// for its panics.
var errUnreadable = errors.New("this cannot be read as YAML")
