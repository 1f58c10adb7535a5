package schema

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// plain returns what stands between the quotes of a string. ok is false when the string
// has escapes and would have to be decoded.
func plain(quoted []byte) (text []byte, ok bool) {
	if len(quoted) < 2 || bytes.IndexByte(quoted, '\\') >= 0 {
		return nil, false
	}
	return quoted[1 : len(quoted)-1], true
}

// decode returns value as maps, slices and scalars for the library. Numbers become
// json.Number, which keeps all their digits.
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

// What a decoded value takes in memory, in bytes, as measured. An object that is not
// empty has a map with room for roomyMembers, so a list of many small objects takes up to
// fifty times what its text does.
const (
	decodedScalar = 25 // and its text
	decodedName   = 5  // and its text
	decodedArray  = 24
	decodedItem   = 20 // of an array, and what it is
	decodedEmpty  = 65 // an object without members
	decodedObject = 330
	decodedMember = 45 // of an object that has more than roomyMembers
	roomyMembers  = 8
)

// DecodedSize returns about how many bytes value takes in memory while it is checked
// against a schema that needs it decoded. It reads value once and allocates nothing.
// value must have passed strictjson.Check.
func DecodedSize(value []byte) int64 { return decodedNext(new(strictjson.CursorOf(value))) }

func decodedNext(c *strictjson.Cursor) int64 {
	switch c.Kind() {
	case '{':
		var size, members int64
		for c.Enter(); c.More(); members++ {
			size += decodedName + int64(len(c.Next()))
			size += decodedNext(c)
		}
		if members == 0 {
			return decodedEmpty
		}
		return decodedObject + max(members-roomyMembers, 0)*decodedMember + size
	case '[':
		size := int64(decodedArray)
		for c.Enter(); c.More(); {
			size += decodedItem + decodedNext(c)
		}
		return size
	}
	return decodedScalar + int64(len(c.Next()))
}

// size counts the values of a text, names included, and finds the longest string or other
// scalar in it, in bytes as written. powers is the sum of powerOf of its numbers.
func size(value []byte) (values, longest, powers int) {
	for _, token := range strictjson.Tokens(value) {
		switch token[0] {
		case '}', ']':
			continue
		case '{', '[':
		default:
			longest = max(longest, len(token))
			powers += powerOf(token)
		}
		values++
	}
	return values, longest, powers
}

// levels adds up for all values of a text in how many arrays and objects each lies, of
// those at the depths in at; nil: of all.
func levels(value []byte, at []bool) (sum int) {
	depth, within := 0, 0
	counts := func() int {
		if at == nil || depth < len(at) && at[depth] {
			return 1
		}
		return 0
	}
	for _, token := range strictjson.Tokens(value) {
		switch token[0] {
		case '}', ']':
			depth--
			within -= counts()
			continue
		case '{', '[':
			within += counts()
			depth++
		}
		sum += within
	}
	return sum
}

// powerOf returns the power of ten of a number that is written with an exponent, without
// its sign. It is zero for every other token. The judges calculate exactly, so 1e-400 has
// 400 digits for them.
func powerOf(token []byte) int {
	if token[0] != '-' && (token[0] < '0' || token[0] > '9') {
		return 0
	}
	i := bytes.IndexAny(token, "eE")
	if i < 0 {
		return 0
	}
	power, _ := strconv.Atoi(string(token[i+1:])) // strictjson has bounded it
	return max(power, -power)
}
