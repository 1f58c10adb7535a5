package schema

import (
	"math"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// bounds are the limits of sizes and numbers that one node sets, in the form that the
// fast path reads. The zero bounds limit nothing.
type bounds struct {
	text, items, members span // counts of characters, items and members
	unique               bool // uniqueItems
	limits               []limit
}

// span is a range of counts, both ends included. The zero span holds every count.
type span struct {
	least, most int
	hasMost     bool // most is a limit, not merely unset
}

func (s *span) holds(count int) bool { return count >= s.least && (!s.hasMost || count <= s.most) }

// count notes a keyword that counts. Those of contains only the library decides.
func (b *bounds) count(keyword string, value int) {
	switch keyword {
	case "minLength":
		b.text.least = value
	case "maxLength":
		b.text.atMost(value)
	case "minItems":
		b.items.least = value
	case "maxItems":
		b.items.atMost(value)
	case "minProperties":
		b.members.least = value
	case "maxProperties":
		b.members.atMost(value)
	}
}

func (s *span) atMost(count int) { s.most, s.hasMost = count, true }

// maxExact is up to where a float has every integer.
const maxExact = 1 << 53

// limit is one of minimum, maximum and their exclusive forms.
type limit struct {
	upper bool    // a maximum
	open  bool    // exclusive: the limit itself is not allowed
	value float64 // rounded
	exact bool    // the limit is an integer that the float has exactly
}

// limit notes a keyword that limits numbers.
func (b *bounds) limit(keyword string, value mcp.RawJSON) {
	l := limit{upper: keyword == "maximum" || keyword == "exclusiveMaximum"}
	l.open = keyword == "exclusiveMaximum" || keyword == "exclusiveMinimum"
	l.value, _ = strconv.ParseFloat(string(value), 64) // beyond the range it is an infinity of the right sign
	l.exact = isDigits(value) && math.Abs(l.value) < maxExact
	b.limits = append(b.limits, l)
}

// proves tells whether number certainly keeps the limit; false proves nothing. Numbers
// are compared as floats. A strict order of the floats counts: rounding can make two
// different numbers equal, but it never turns their order around. That they are equal
// counts for integers, as far as floats have them exactly.
func (l limit) proves(number []byte) bool {
	float, err := strconv.ParseFloat(string(number), 64)
	switch {
	case err != nil:
		return false
	case float == l.value:
		return !l.open && l.exact && isDigits(number)
	}
	return l.upper == (float < l.value)
}
