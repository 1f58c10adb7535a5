package strictjson

import "bytes"

// Cursor goes through a text that has passed Check, from left to right, without copying
// or decoding it. It is for whoever looks for something in a value or cleans it in place,
// so that they need no scanner of their own. A copy of a Cursor is a bookmark to come
// back to. On text that has not passed Check, what it finds means nothing, but it never
// leaves the text and always gets to its end.
//
// This goes through an object:
//
//	for c.Enter(); c.More(); {
//		name, value := c.Next(), c.Next()
//	}
type Cursor struct {
	data []byte
	i    int // index of the next byte
}

// CursorOf returns a cursor at the beginning of data.
func CursorOf(data []byte) Cursor { return Cursor{data: data} }

// Kind moves to the next token and returns its first byte: a bracket, a quotation mark,
// or the beginning of a number or literal. At the end of the text it is 0. Commas and
// colons do not count as tokens.
func (c *Cursor) Kind() byte {
	for c.i < len(c.data) {
		if b := c.data[c.i]; b > ' ' && b != ',' && b != ':' {
			return b
		}
		c.i++
	}
	return 0
}

// At returns how many bytes stand before the cursor. After Kind, these are the bytes
// before the next token.
func (c *Cursor) At() int { return c.i }

// MoveTo moves the cursor to where at bytes of the text stand before it, as At has told.
func (c *Cursor) MoveTo(at int) { c.i = at }

// Enter passes the opening bracket that is next.
func (c *Cursor) Enter() {
	if c.Kind() != 0 {
		c.i++
	}
}

// More tells whether another member or element follows in the object or array that was
// entered. If none does, it passes the closing bracket.
func (c *Cursor) More() bool {
	switch c.Kind() {
	case 0:
		return false
	case '}', ']':
		c.i++
		return false
	}
	return true
}

// Next passes the name or the whole value that is next, and returns it as it is written:
// a name with its quotation marks. What it returns aliases the text.
func (c *Cursor) Next() []byte {
	c.Kind()
	return c.pass()
}

// pass is Next for a cursor that Kind has moved.
func (c *Cursor) pass() []byte {
	start := c.i
	c.i = value(c.data, start)
	return c.data[start:c.i:c.i]
}

// value returns the index after the value that starts at i. On data that has not passed
// Check it may stop anywhere within data, but never beyond its end.
func value(data []byte, i int) int {
	if i >= len(data) {
		return i
	}
	switch data[i] {
	case '"':
		return quoted(data, i)
	case '{', '[':
		return nested(data, i)
	}
	for i < len(data) {
		switch data[i] {
		case ',', '}', ']', ':', ' ', '\n', '\r', '\t':
			return i
		}
		i++
	}
	return i
}

// quoted returns the index after the string that starts at i. It jumps from quotation
// mark to quotation mark, because strings are most of what is large.
func quoted(data []byte, i int) int {
	for from := i + 1; from < len(data); {
		mark := bytes.IndexByte(data[from:], '"')
		if mark < 0 {
			break
		}
		end := from + mark
		if !isEscaped(data[from:end]) {
			return end + 1
		}
		from = end + 1
	}
	return len(data)
}

// isEscaped tells whether what follows text in a string is escaped: the backslashes at
// its end are an odd number.
func isEscaped(text []byte) bool {
	n := 0
	for n < len(text) && text[len(text)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// nested returns the index after the object or array that starts at i.
func nested(data []byte, i int) int {
	depth := 0
	for i < len(data) {
		switch data[i] {
		case '"':
			i = quoted(data, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(data)
}
