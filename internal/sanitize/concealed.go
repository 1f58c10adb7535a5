package sanitize

import (
	"strconv"
	"strings"
	"unicode"
)

// Finding is hidden text in a string that is never edited.
type Finding struct {
	Path string // from the root of the definition, as in inputSchema.properties.x.enum[2], spelt with Spell
	Kind Kind   // Hidden, Control or Escape
	// the first character that is hidden text, or begins it; zero: cleaning would change
	// another way
	First rune
}

// conceals returns the kind of what is hidden in text, "" if nothing is, and the first
// character that cleaning removes.
func conceals(text string) (Kind, rune) {
	c := cleaner{unhides: true}
	cleaned, _ := c.repair([]byte(text))
	first := firstRemoved(text, cleaned)
	switch {
	case c.escape > 0:
		return Escape, first
	case c.hidden > 0:
		return Hidden, first
	case c.control > 0 || coversLine(text):
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
