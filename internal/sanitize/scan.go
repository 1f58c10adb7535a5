package sanitize

import (
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// marks say what was seen in a string: which rules may fire there.
type marks uint8

const (
	escaped  marks = 1 << iota // an escape that may stand for anything
	beyond                     // a byte beyond ASCII, or the control DEL
	hinted                     // the beginning of a secret
	carriage                   // a carriage return
)

// sight is what scan saw in a string.
type sight struct {
	marks marks
	short int // escapes of two bytes that stand for one
}

// class of a byte within the text of a JSON string.
type class uint8

const (
	plain  class = iota
	quote        // ends the string
	slash        // begins an escape
	high         // beyond ASCII, or DEL
	anchor       // ends the hint of some kind of secret
)

var classes = classify()

func classify() (table [256]class) {
	for c := 0x7F; c < 256; c++ {
		table[c] = high
	}
	for c, kinds := range hints.last {
		if kinds != 0 {
			table[c] = anchor
		}
	}
	table['"'], table['\\'] = quote, slash
	return table
}

// scan looks at the JSON string that begins at i and returns the index after it. Escapes and literal characters are
// seen alike: what a plain escape cannot stand for is marked, to be looked at decoded.
func scan(data []byte, i int) (end int, s sight) {
	for i++; ; i++ {
		switch classes[data[i]] {
		case plain:
		case quote:
			return i + 1, s
		case slash:
			i++
			switch data[i] {
			case 'n', 't', '"', '\\':
			case 'r':
				s.marks |= carriage
			default: // b, f, u, and / which may stand within a secret
				s.marks |= escaped
			}
			s.short++
		case high:
			s.marks |= beyond
		case anchor:
			if secretBegins(data, i) {
				s.marks |= hinted
			}
		}
	}
}

// find returns the value of the member with that name in the object that is next, nil when there is none.
func find(c strictjson.Cursor, name string) mcp.RawJSON {
	for c.Enter(); c.More(); {
		key, value := c.Next(), c.Next()
		if string(word(key)) == name {
			return value
		}
	}
	return nil
}

// word returns the text of a JSON string, nil of any other value.
func word(raw mcp.RawJSON) []byte {
	if len(raw) == 0 || raw[0] != '"' {
		return nil
	}
	return unescape(nil, raw[1:len(raw)-1])
}
