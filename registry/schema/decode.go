package schema

import (
	"bytes"
	"encoding/json"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// plain returns what stands between the quotes of a string. ok is false when the string has escapes and would have to
// be decoded.
func plain(quoted []byte) (text []byte, ok bool) {
	if len(quoted) < 2 || bytes.IndexByte(quoted, '\\') >= 0 {
		return nil, false
	}
	return quoted[1 : len(quoted)-1], true
}

// decode returns value as maps, slices and scalars for the library. Numbers become json.Number, which keeps all their
// digits.
func decode(value []byte) any { return decodeNext(new(strictjson.CursorOf(value))) }

func decodeNext(c *strictjson.Cursor) any {
	switch c.Kind() {
	case '{':
		object := map[string]any{}
		for c.Enter(); c.More(); {
			name, _ := strictjson.Unquote(c.Next())
			object[name] = decodeNext(c)
		}
		return object
	case '[':
		list := []any{}
		for c.Enter(); c.More(); {
			list = append(list, decodeNext(c))
		}
		return list
	case '"':
		text, _ := strictjson.Unquote(c.Next())
		return text
	}
	switch text := c.Next(); string(text) {
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
// written.
func size(value []byte) (values, longest int) {
	for _, token := range strictjson.Tokens(value) {
		switch token[0] {
		case '}', ']':
			continue
		case '{', '[':
		default:
			longest = max(longest, len(token))
		}
		values++
	}
	return values, longest
}
