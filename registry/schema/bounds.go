package schema

import (
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// bounds are the limits of sizes and numbers of one node. The zero bounds limit nothing.
type bounds struct {
	text, items, members span
	unique               bool
	limits               []limit
}

// span is a range of counts.
type span struct {
	least, most int
	has         bool
	hasMost     bool
}

func (s span) holds(count int) bool {
	return !s.has || count >= s.least && (!s.hasMost || count <= s.most)
}

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

// limit is one bound of numbers.
type limit struct {
	upper, open bool
	float       float64
	whole       int64
	isWhole     bool
}

func (b *bounds) limit(keyword string, value mcp.RawJSON) {
	l := limit{upper: keyword == "maximum" || keyword == "exclusiveMaximum"}
	l.open = keyword == "exclusiveMaximum" || keyword == "exclusiveMinimum"
	l.whole, l.isWhole = value.Int()
	l.float, _ = strconv.ParseFloat(string(value), 64) // beyond the range it is an infinity of the right sign
	b.limits = append(b.limits, l)
}

// proves tells whether number certainly keeps the limit. Rounding to a float never changes which of two numbers is
// larger, so a strict order of the floats is an order of the numbers.
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
