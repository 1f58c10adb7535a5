package schema

import (
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
	has         bool // there is a limit at all
	hasMost     bool // most is a limit, not merely unset
}

func (s span) holds(count int) bool {
	return !s.has || count >= s.least && (!s.hasMost || count <= s.most)
}

// count notes a keyword that counts.
func (b *bounds) count(keyword string, value int) {
	var s *span
	switch keyword {
	case "minLength", "maxLength":
		s = &b.text
	case "minItems", "maxItems":
		s = &b.items
	case "minProperties", "maxProperties":
		s = &b.members
	default:
		return // of contains, which only the library decides
	}
	s.has = true
	if keyword[:3] == "min" {
		s.least = value
		return
	}
	s.most, s.hasMost = value, true
}

// limit is one of minimum, maximum and their exclusive forms. It is kept in two forms:
// exactly where it is an integer of 64 bits, and rounded to a float.
type limit struct {
	upper   bool // a maximum
	open    bool // exclusive: the limit itself is not allowed
	float   float64
	whole   int64
	isWhole bool // whole is the exact limit
}

// limit notes a keyword that limits numbers.
func (b *bounds) limit(keyword string, value mcp.RawJSON) {
	l := limit{upper: keyword == "maximum" || keyword == "exclusiveMaximum"}
	l.open = keyword == "exclusiveMaximum" || keyword == "exclusiveMinimum"
	l.whole, l.isWhole = value.Int()
	l.float, _ = strconv.ParseFloat(string(value), 64) // beyond the range it is an infinity of the right sign
	b.limits = append(b.limits, l)
}

// proves tells whether number certainly keeps the limit; false proves nothing. Integers
// are compared exactly. Other numbers are compared as floats, and only a strict order of
// the floats counts: rounding can make two different numbers equal, but it never turns
// their order around.
func (l limit) proves(number []byte) bool {
	if whole, ok := mcp.RawJSON(number).Int(); ok && l.isWhole {
		switch {
		case whole == l.whole:
			return !l.open
		case l.upper:
			return whole < l.whole
		default:
			return whole > l.whole
		}
	}
	float, err := strconv.ParseFloat(string(number), 64)
	if err != nil {
		return false
	}
	if l.upper {
		return float < l.float
	}
	return float > l.float
}
