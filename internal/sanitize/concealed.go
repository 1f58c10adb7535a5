package sanitize

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Finding is hidden text in a string that is never edited.
type Finding struct {
	Path string // from the root of the definition, as in inputSchema.properties.x.enum[2], spelt with Spell
	Kind Kind   // Hidden, Control or Escape
	// the first character that is hidden text, or begins it; zero: cleaning would change
	// another way
	First rune
}

// maxPath bounds the Path of a Finding, in bytes.
const maxPath = 160

// Concealed returns the first of the strings of a definition that hold hidden text
// although Definition does not edit them, at most limit, and how many there are. Those
// strings go back to the server, or are compared or looked up by programs: names, keys,
// URIs, what validates in schemas, and everything that no revision of the protocol knows
// as a text. In the others, such as descriptions, Definition removes hidden text.
//
// What scripts and emoji need stays, as it does in results: a choice may be an emoji of a
// family or a Persian word. A carriage return and a form feed between other characters
// count as hidden text: on a terminal the first overwrites the line, and the second may
// clear the screen.
func Concealed(definition mcp.Object, limit int) (first []Finding, all int) {
	s := seeker{cleaner: cleaner{unhides: true}, limit: limit}
	at := definitionPosition(definition)
	for name, value := range definition.Members {
		s.path = append(s.path[:0], step{name: strictjson.AppendQuote(nil, name)})
		s.judge(s.path[0].name)
		s.cursor = strictjson.CursorOf(value)
		s.value(at.member([]byte(name)))
	}
	return s.first, s.all
}

// seeker goes through a definition and looks at the strings that are never edited. Its
// cleaner repairs copies, and only to see whether they would change.
type seeker struct {
	cleaner

	cursor strictjson.Cursor // before the token that is next
	path   []step            // that leads to it
	limit  int
	first  []Finding
	all    int
}

// step leads from a value to a member or an element.
type step struct {
	name  []byte // a JSON string
	index int
	array bool // it leads to the element with that index; false: to the member with that name
}

// value looks at the value that is next and moves the cursor behind it.
func (s *seeker) value(at position) {
	switch s.cursor.Kind() {
	case '"':
		if raw := s.cursor.Next(); at.text() != free {
			s.judge(raw)
		}
	case '[':
		s.cursor.Enter()
		for i := 0; s.cursor.More(); i++ {
			s.path = append(s.path, step{index: i, array: true})
			s.value(at)
			s.path = s.path[:len(s.path)-1]
		}
	case '{':
		for s.cursor.Enter(); s.cursor.More(); {
			name := s.cursor.Next()
			s.path = append(s.path, step{name: name})
			s.judge(name)
			s.value(at.member(textOf(name)))
			s.path = s.path[:len(s.path)-1]
		}
	default:
		s.cursor.Next()
	}
}

// judge notes a finding at the present place if the JSON string raw holds hidden text.
// Most strings have no character that could be hidden text, and are not even decoded.
func (s *seeker) judge(raw []byte) {
	if _, sight := scan(raw, 0); sight.marks&(escaped|beyond|carriage) == 0 {
		return
	}
	kind, first := s.conceals(s.decode(raw))
	if kind == "" {
		return
	}
	if s.all++; s.all <= s.limit {
		s.first = append(s.first, Finding{Path: s.spelt(), Kind: kind, First: first})
	}
}

// conceals returns the kind of what is hidden in text, "" if nothing is, and the first
// character that cleaning removes.
func (s *seeker) conceals(text []byte) (Kind, rune) {
	original := string(text) // repair may use the memory of text
	s.counts = counts{}
	cleaned, _ := s.repair(text)
	first := firstRemoved(original, cleaned)
	switch {
	case s.escape > 0:
		return Escape, first
	case s.hidden > 0:
		return Hidden, first
	case s.control > 0 || coversLine(original):
		return Control, first
	}
	return "", 0
}

// firstRemoved returns the character of original at which cleaned differs from it, zero
// if they are the same.
func firstRemoved(original string, cleaned []byte) rune {
	for i, r := range original {
		if i >= len(cleaned) || first(cleaned[i:]) != r {
			return r
		}
	}
	return 0
}

// coversLine tells whether text has a carriage return or form feed between other
// characters of one line.
func coversLine(text string) bool {
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		if strings.ContainsAny(strings.Trim(line, "\r\f"), "\r\f") {
			return true
		}
	}
	return false
}

// spelt spells the present path.
func (s *seeker) spelt() string {
	var out strings.Builder
	for i, one := range s.path {
		if out.Len() > maxPath {
			return out.String() + "…"
		}
		switch {
		case one.array:
			out.WriteString("[" + strconv.Itoa(one.index) + "]")
		case i == 0:
			out.WriteString(Spell(string(textOf(one.name))))
		default:
			out.WriteString("." + Spell(string(textOf(one.name))))
		}
	}
	return out.String()
}

// maxSpelt bounds what Spell returns, in bytes.
const maxSpelt = 80

// Spell returns text as operators may safely read it in a terminal: every character that
// cannot be seen, that changes the direction of others or that is a control is written
// out as in Go, such as \u200b. A long text is cut and ends in "…".
func Spell(text string) string {
	var out strings.Builder
	for _, r := range text {
		if out.Len() > maxSpelt {
			return out.String() + "…"
		}
		if unicode.IsPrint(r) && r != '\\' && r != unicode.ReplacementChar &&
			!unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}
