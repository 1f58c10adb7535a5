package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/token"
)

// This file checks the tokens of a file before the parser of the library sees them, for
// three reasons. Constructs of YAML that a config does not use, such as anchors and tags,
// are refused. The nesting is bounded before the parser calls itself for each level. And
// the commonest slips get plain words, because the messages of the library speak of its
// own parts.

// checkTokens refuses anchors, aliases, tags, directives and complex keys, nesting of
// more than maxConfigDepth levels, and brackets, commas, colons and dashes that do not
// fit together. It returns whether the tokens may be parsed.
func (r *reader) checkTokens(tokens token.Tokens) bool {
	var nest nesting
	before := len(r.problems)
	for i, t := range tokens {
		if text := unused(t.Type); text != "" {
			if r.full() {
				return false // blamed looks at the whole line before each
			}
			t, text = blamed(tokens[:i+1], text)
			r.fault(r.nodeAt(t), "%s", text)
			continue
		}
		text := nest.step(tokens, i)
		switch {
		case text == "" && len(nest.open)+len(nest.levels) > maxConfigDepth:
			text = fmt.Sprintf("more than %d levels deep", maxConfigDepth)
		case text != "" && nest.forgotten != nil:
			t, text = nest.forgotten, notClosed(nest.forgotten)
		case text != "":
			t, text = blamed(tokens[:i+1], text)
		}
		if text != "" && len(r.problems) == before {
			r.fault(r.nodeAt(t), "%s", text)
		}
		if text != "" {
			return false
		}
	}
	if n := len(nest.open); n > 0 && len(r.problems) == before {
		r.fault(r.nodeAt(nest.open[n-1]), "%s", notClosed(nest.open[n-1]))
	}
	return len(r.problems) == before
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

func notClosed(bracket *token.Token) string {
	return fmt.Sprintf("this %s is not closed", bracket.Value)
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

// nesting is where the walk over the tokens stands: in which levels of indentation and in
// which open brackets. The zero value stands at the beginning of a file.
type nesting struct {
	levels []int          // columns in which keys and dashes began, each further right than the one before
	open   []*token.Token // brackets that are open, the outermost first

	// The bracket of open that was probably never closed; nil: none. The sign of it is a
	// key inside brackets that stands no further right than the key that the bracket
	// belongs to. Whatever does not fit afterwards is reported at this bracket, where the
	// cause is, and not at the line where it shows.
	forgotten *token.Token
}

// step takes in the token at i. It returns what is wrong at that token, "" when nothing
// is.
func (n *nesting) step(tokens token.Tokens, i int) string {
	t, before := tokens[i], token.UnknownType
	if i > 0 {
		before = tokens[i-1].Type
	}
	after := i+1 < len(tokens)
	switch t.Type {
	case token.InvalidType:
		return invalidMessage(t)
	case token.MappingStartType, token.SequenceStartType:
		if i > 0 && t.Type == token.MappingStartType && strings.HasSuffix(tokens[i-1].Value, "$") {
			return "inside { } or [ ] a value with ${…} needs quotes around it"
		}
		if len(n.open) > 0 && !opens(before) && before != token.CollectEntryType &&
			before != token.MappingValueType {
			return "a comma is missing before this"
		}
		n.open = append(n.open, t)
	case token.MappingEndType, token.SequenceEndType:
		return n.close(t, before)
	case token.CollectEntryType:
		if before == token.MappingValueType {
			return "a value is missing before this comma"
		}
	case token.MappingValueType:
		if i == 0 || opens(before) || before == token.CollectEntryType || before == token.MappingValueType ||
			before == token.SequenceEntryType {
			return "a name is missing before this colon"
		}
	case token.SequenceEntryType:
		if len(n.open) > 0 {
			return "inside { } or [ ] the items of a list have no dash; put quotes around a text that " +
				"begins with one"
		}
		if !after || tokens[i+1].Position.Line > t.Position.Line &&
			tokens[i+1].Position.Column <= t.Position.Column {
			return "an item of a list is missing after this dash"
		}
		n.indent(t)
	default:
		return n.scalar(tokens, i, before)
	}
	return ""
}

// close takes the innermost open bracket away, which must be of the same kind as the
// closing bracket t. It returns what is wrong, "" when nothing is.
func (n *nesting) close(t *token.Token, before token.Type) string {
	if len(n.open) == 0 {
		return fmt.Sprintf("this %s closes nothing", t.Value)
	}
	last := n.open[len(n.open)-1]
	if (last.Type == token.MappingStartType) != (t.Type == token.MappingEndType) {
		return fmt.Sprintf("this %s stands where the %s of line %d must be closed first", t.Value, last.Value,
			last.Position.Line)
	}
	if before == token.MappingValueType {
		return fmt.Sprintf("a value is missing before this %s", t.Value)
	}
	n.open = n.open[:len(n.open)-1]
	if last == n.forgotten {
		n.forgotten = nil
	}
	return ""
}

// scalar checks a text, which is a key when a colon follows it. It returns what is wrong,
// "" when nothing is.
func (n *nesting) scalar(tokens token.Tokens, i int, before token.Type) string {
	t, key := tokens[i], isKey(tokens, i)
	if key && len(n.open) > 0 && len(n.levels) > 0 && n.forgotten == nil &&
		t.Position.Column <= n.levels[len(n.levels)-1] {
		n.forgotten = n.open[len(n.open)-1]
	}
	switch {
	case losesTab(t):
		return `a tab in a text without quotes; write a space, or \t in double quotes`
	case key && len(n.open) == 0 && tokens[i+1].Position.Line > t.Position.Line, key &&
		strings.Contains(strings.TrimSpace(t.Origin), "\n"):
		if before == token.MappingValueType && tokens[i-1].Position.Line == t.Position.Line {
			return "the line below this is indented too far: this key has its value already"
		}
		if len(n.open) > 0 {
			last := n.open[len(n.open)-1]
			return fmt.Sprintf("a comma is missing after this, or the %s of line %d is not closed",
				last.Value, last.Position.Line)
		}
		return "a colon is missing in this line; each line here is key: value"
	case key && before == token.MappingValueType &&
		(len(n.open) > 0 || tokens[i-1].Position.Line == t.Position.Line):
		return "a second colon in one value; put quotes around a text with a colon in it"
	case key && len(n.open) == 0:
		n.indent(t)
	case len(n.open) == 0:
	case !opens(before) && before != token.CollectEntryType && before != token.MappingValueType:
		return "a comma is missing before this"
	case !key && before != token.MappingValueType && n.open[len(n.open)-1].Type == token.MappingStartType:
		return "a colon and a value are missing after this; between { } stands key: value"
	}
	return ""
}

// losesTab tells whether the library drops a tab from a text without quotes. The text
// would silently become another: "deny<tab>_all" would be read as the name deny_all.
func losesTab(t *token.Token) bool {
	quoted := t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType
	return !quoted && strings.Contains(strings.TrimSpace(t.Origin), "\t") && !strings.Contains(t.Value, "\t")
}

// indent enters the level of indentation at whose column t stands, and leaves all levels
// that are not further left.
func (n *nesting) indent(t *token.Token) {
	for len(n.levels) > 0 && n.levels[len(n.levels)-1] >= t.Position.Column {
		n.levels = n.levels[:len(n.levels)-1]
	}
	n.levels = append(n.levels, t.Position.Column)
}

// opens tells whether a token of that kind is a bracket that opens.
func opens(kind token.Type) bool {
	return kind == token.MappingStartType || kind == token.SequenceStartType
}

// bracket counts a token: 1 for a bracket that opens, -1 for one that closes, 0 for all
// others.
func bracket(t *token.Token) int {
	switch t.Type {
	case token.MappingStartType, token.SequenceStartType:
		return 1
	case token.MappingEndType, token.SequenceEndType:
		return -1
	default:
		return 0
	}
}

// isKey tells whether the token at i is the key of a mapping.
func isKey(tokens token.Tokens, i int) bool {
	return i+1 < len(tokens) && tokens[i+1].Type == token.MappingValueType
}

// isEntry tells whether the token at i is the dash that begins an item of a list.
func isEntry(tokens token.Tokens, i int) bool { return tokens[i].Type == token.SequenceEntryType }

// invalidMessage says what is wrong with a token that the scanner cannot read.
func invalidMessage(t *token.Token) string {
	if strings.Contains(t.Value, "\t") {
		return "a tab where only spaces may stand"
	}
	return plainMessage(t.Error)
}

// syntaxMessage returns our words for an error message of the parser at the token t.
func syntaxMessage(t *token.Token, text string) string {
	if mark := t.Value[:min(1, len(t.Value))]; mark == "}" || mark == "]" {
		return fmt.Sprintf("this %s closes nothing", mark)
	}
	return plainMessage(text)
}

// misplaced is the message about a token that begins neither a member nor an item at the
// place where it stands.
const misplaced = "this does not fit the lines above: look at its indentation, and whether a colon is missing"

// plainMessage returns our words for a message of the library. It searches the text of
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
		{
			"map key-value is pre-defined",
			"this is indented below a key that has its value already; is a colon or a quote missing?",
		},
		{
			"block sequence entries are not allowed",
			"the items of a list begin on a line of their own, below their key",
		},
		{"non-map value is specified", misplaced},
		{"value is not allowed in this context", misplaced},
	} {
		if strings.Contains(text, known.theirs) {
			return known.ours
		}
	}
	return errUnreadable.Error() + "; look at the indentation, quotes, colons and brackets before it"
}

// nodeAt returns an empty node at the place of t in the file that is read.
func (r *reader) nodeAt(t *token.Token) *node {
	return &node{file: r.file, line: max(1, t.Position.Line), col: max(1, t.Position.Column)}
}

// errUnreadable stands in for errors of the library that have no plain words of ours, and
// for its panics.
var errUnreadable = errors.New("this cannot be read as YAML")
