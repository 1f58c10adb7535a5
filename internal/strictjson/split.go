package strictjson

import (
	"bytes"
	"errors"
	"unicode/utf8"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is one name and value of an object. Both alias the text that they were cut from,
// so that text must not change any more: Name is a string, and strings that change break
// maps and comparisons.
type Member struct {
	Name  string
	Value []byte // one JSON value without surrounding whitespace
}

// errNotChecked means that a text is not of the expected kind, such as an array in the
// place of an object, or that it has not passed Check.
var errNotChecked = errors.New("not a checked JSON value of this kind")

// Members appends the members of the object in data to dst, in their order, and returns
// it. Only this one level is looked at. The members alias data, which must have passed
// Check.
func Members(dst []Member, data []byte) ([]Member, error) {
	c := CursorOf(data)
	if c.Kind() != '{' {
		return nil, errNotChecked
	}
	for c.Enter(); c.Kind() != '}'; {
		name, err := unquoteInPlace(c.pass())
		if err != nil {
			return nil, err
		}
		value := c.Next()
		if len(value) == 0 {
			return nil, errNotChecked
		}
		dst = append(dst, Member{Name: name, Value: value})
	}
	return dst, c.noComma()
}

// unquoteInPlace is Unquote without a copy, if the text contains no escapes and so stands
// there as it is.
func unquoteInPlace(data []byte) (string, error) {
	if len(data) > 2 && data[len(data)-1] == '"' && bytes.IndexByte(data, '\\') < 0 {
		return unsafe.String(&data[1], len(data)-2), nil //nolint:gosec // data does not change any more; see Member
	}
	return Unquote(data)
}

// Elements returns the elements of the array in data, in their order. They alias data,
// which must have passed Check.
func Elements[T ~[]byte](data []byte) ([]T, error) {
	c := CursorOf(data)
	if c.Kind() != '[' {
		return nil, errNotChecked
	}
	var elements []T
	for c.Enter(); c.Kind() != ']'; {
		element := c.pass()
		if len(element) == 0 {
			return nil, errNotChecked
		}
		elements = append(elements, element)
	}
	return elements, c.noComma()
}

// noComma returns an error if a comma stands before the bracket that is next. A cursor
// does not stop at commas.
func (c *Cursor) noComma() error {
	i := c.i - 1
	for c.data[i] <= ' ' {
		i-- // before it all stands another bracket
	}
	if c.data[i] == ',' {
		return errNotChecked
	}
	return nil
}

// Unquote returns the text of the JSON string in data. It is a copy.
func Unquote(data []byte) (string, error) {
	if len(data) >= 2 && data[0] == '"' && data[len(data)-1] == '"' && bytes.IndexByte(data, '\\') < 0 {
		return string(data[1 : len(data)-1]), nil
	}
	text, err := jsontext.AppendUnquote(nil, data)
	return string(text), err
}

// Text returns the text of a JSON string. It is false for any other value, and for none.
func Text(value []byte) (string, bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	text, err := Unquote(value)
	return text, err == nil
}

// Texts returns the texts of a JSON array of strings. It is false for any other value,
// and for none.
func Texts(value []byte) ([]string, bool) {
	elements, err := Elements[[]byte](value)
	if err != nil {
		return nil, false
	}
	texts := make([]string, len(elements))
	for i, element := range elements {
		var ok bool
		if texts[i], ok = Text(element); !ok {
			return nil, false
		}
	}
	return texts, true
}

// Find returns the value of the member of that name, nil if there is none.
func Find(members []Member, name string) []byte {
	for i := range members {
		if members[i].Name == name {
			return members[i].Value
		}
	}
	return nil
}

// AppendUnquote appends the text of the JSON string in data to dst. data must have passed
// Check.
func AppendUnquote(dst, data []byte) []byte {
	dst, _ = jsontext.AppendUnquote(dst, data) // the errors are of what Check refuses
	return dst
}

// AppendQuote appends text to dst as a JSON string. Only the characters are escaped that
// must be, and broken UTF-8 becomes U+FFFD, so the result always passes Check.
func AppendQuote(dst []byte, text string) []byte {
	if !utf8.ValidString(text) {
		text = string(bytes.ToValidUTF8([]byte(text), []byte("\uFFFD")))
	}
	dst, _ = jsontext.AppendQuote(dst, text) // the one error is broken UTF-8, mended above
	return dst
}
