package schema

import (
	"bytes"
	"encoding/json"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// cursor reads JSON text in one pass, without checking it again: the text must have passed strictjson.Check. What it
// reads of any other text may be nonsense, but it never reads beyond the text and always ends.
type cursor struct {
	data []byte
	i    int // where it reads next
}

// kind moves to the next value or bracket and returns its first byte, 0 at the end.
func (c *cursor) kind() byte {
	for c.i < len(c.data) {
		switch b := c.data[c.i]; b {
		case ' ', '\t', '\n', '\r', ',', ':':
			c.i++
		default:
			return b
		}
	}
	return 0
}

// more tells whether another element follows before the closing bracket, which it passes.
func (c *cursor) more() bool {
	switch c.kind() {
	case '}', ']', 0:
		c.i++
		return false
	}
	return true
}

// scalar passes a string, number or literal and returns its text.
func (c *cursor) scalar() []byte {
	if c.kind() == '"' {
		return c.quoted()
	}
	start := min(c.i, len(c.data))
	for c.i < len(c.data) {
		switch c.data[c.i] {
		case ' ', '\t', '\n', '\r', ',', ':', '}', ']', '{', '[', '"':
			return c.data[start:c.i]
		}
		c.i++
	}
	return c.data[start:]
}

// quoted passes a string and returns it as written, with its quotes.
func (c *cursor) quoted() []byte {
	start := c.i
	for c.i++; c.i < len(c.data); c.i++ {
		switch c.data[c.i] {
		case '\\':
			c.i++
		case '"':
			c.i++
			return c.data[start:c.i]
		}
	}
	c.i = len(c.data)
	return c.data[start:]
}

// skip passes the next value, whatever is in it.
func (c *cursor) skip() {
	depth := 0
	for {
		switch c.kind() {
		case 0:
			return
		case '{', '[':
			depth++
			c.i++
		case '}', ']':
			depth--
			c.i++
		default:
			c.scalar()
		}
		if depth <= 0 {
			return
		}
	}
}

// plain returns what stands between the quotes of a string. ok is false when the string has escapes and would have to
// be decoded.
func plain(quoted []byte) (text []byte, ok bool) {
	if len(quoted) < 2 || bytes.IndexByte(quoted, '\\') >= 0 {
		return nil, false
	}
	return quoted[1 : len(quoted)-1], true
}

// value decodes the next value into maps, slices and scalars for the library. Numbers become json.Number, which keeps
// all their digits.
func (c *cursor) value() any {
	switch c.kind() {
	case '{':
		c.i++
		object := map[string]any{}
		for c.more() {
			name, _ := strictjson.Unquote(c.scalar())
			object[name] = c.value()
		}
		return object
	case '[':
		c.i++
		list := []any{}
		for c.more() {
			list = append(list, c.value())
		}
		return list
	case '"':
		text, _ := strictjson.Unquote(c.scalar())
		return text
	}
	switch text := c.scalar(); string(text) {
	case "null":
		return nil
	case "true":
		return true
	case "false":
		return false
	default:
		return json.Number(text)
	}
}

// size counts the values of a text, names included, and finds the longest string or other scalar in it, in bytes as
// written. It reads the cursor to its end.
func (c *cursor) size() (values, longest int) {
	for {
		switch c.kind() {
		case 0:
			return values, longest
		case '{', '[':
			values++
			c.i++
		case '}', ']':
			c.i++
		default:
			values++
			longest = max(longest, len(c.scalar()))
		}
	}
}
