package sanitize

import (
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// marks say what scan saw in a JSON string, and so which rules may fire there. A string
// without marks is clean, and that is nearly every string: scan is what makes cleaning
// cheap.
type marks uint8

const (
	// an escape that may stand for a control or hidden character, or be part of a secret
	escaped  marks = 1 << iota
	beyond         // a byte beyond ASCII, or the control character DEL
	hinted         // what may be the beginning of a secret
	carriage       // an escaped carriage return, of interest in definitions only
)

// sight is what scan saw in a string.
type sight struct {
	marks marks
	short int // number of escapes; each of two bytes that stands for one makes the text that much shorter
}

// class says what scan does at a byte of a JSON string.
type class uint8

const (
	plain  class = iota
	quote        // ends the string
	slash        // a backslash, which begins an escape
	high         // beyond ASCII, or DEL
	anchor       // the last byte of some rule's hint (see rule.hint): a secret may begin here
)

var classes = classify()

// classify makes the table once, when the program starts. A byte is an anchor when some
// rule's hint ends with it.
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

// scan looks at the JSON string that begins at i, without decoding it, and returns the
// index after it. An escape that could stand for something a rule looks for is marked, so
// that the string is decoded and inspected: otherwise a server could get around every
// rule by escaping.
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

// find returns the value of the first member with that name in the object that is next,
// nil when there is none. c is a copy of the walker's cursor, so the walk goes on where
// it was.
func find(c strictjson.Cursor, name string) mcp.RawJSON {
	for c.Enter(); c.More(); {
		key, value := c.Next(), c.Next()
		if string(textOf(key)) == name {
			return value
		}
	}
	return nil
}

// textOf returns the text of a JSON string, nil for any other value.
func textOf(raw mcp.RawJSON) []byte {
	if len(raw) == 0 || raw[0] != '"' {
		return nil
	}
	return unquoted(nil, raw)
}
