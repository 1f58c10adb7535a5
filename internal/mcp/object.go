package mcp

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// RawJSON is the text of one JSON value that has passed strictjson.Check and holds no
// line break, so that it fits into one line of an event stream or of stdio. Nil means
// that there is no value, which differs from null. The bytes are shared: do not modify
// them.
type RawJSON []byte

// MarshalJSON implements json.Marshaler. It returns r itself, and "null" for nil.
func (r RawJSON) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	return r, nil
}

// UnmarshalJSON implements json.Unmarshaler. It keeps a copy of data, which the decoder
// has checked.
func (r *RawJSON) UnmarshalJSON(data []byte) error {
	*r = bytes.Clone(data)
	return nil
}

// IsNull tells whether r is absent or the literal null.
func (r RawJSON) IsNull() bool { return len(r) == 0 || string(r) == "null" }

// IsObject tells whether r is a JSON object.
func (r RawJSON) IsObject() bool { return len(r) > 0 && r[0] == '{' }

// IsArray tells whether r is a JSON array.
func (r RawJSON) IsArray() bool { return len(r) > 0 && r[0] == '[' }

// Text returns the text of r, and false if r is not a JSON string.
func (r RawJSON) Text() (string, bool) { return strictjson.Text(r) }

// Says tells whether r is the JSON string with that text. It spares the copy that Text
// makes.
func (r RawJSON) Says(text string) bool {
	if len(r) < 2 || r[0] != '"' {
		return false
	}
	if inner := r[1 : len(r)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner) == text
	}
	said, ok := r.Text()
	return ok && said == text
}

// IsText tells whether r is a JSON string.
func (r RawJSON) IsText() bool { return len(r) > 0 && r[0] == '"' }

// Member returns the value of that member of the object r, nil if there is none or r is
// not an object. It is for one look into an object that nobody needs besides: it keeps
// nothing.
func (r RawJSON) Member(name string) RawJSON {
	var few [8]Member
	o, _ := objectIn(few[:0], r)
	return o.Value(name)
}

// Int returns the value of r, and false if r is not an integer, has a fraction or an
// exponent, or does not fit an int64.
func (r RawJSON) Int() (int64, bool) {
	n, err := strconv.ParseInt(string(r), 10, 64)
	return n, err == nil
}

// Millis returns the time that r says in milliseconds, within zero and most, and false if
// r is not an integer.
func (r RawJSON) Millis(most time.Duration) (time.Duration, bool) {
	n, ok := r.Int()
	// bounded before it is multiplied, or the product could be too large
	return time.Duration(min(max(n, 0), most.Milliseconds())) * time.Millisecond, ok
}

// Elements returns the elements of r, and false if r is not an array. They alias r.
func (r RawJSON) Elements() ([]RawJSON, bool) {
	elements, err := strictjson.Elements[RawJSON](r)
	return elements, err == nil
}

// String returns text as a JSON string.
func String(text string) RawJSON {
	return strictjson.AppendQuote(make([]byte, 0, len(text)+2), text)
}

// Int returns n as a JSON number.
func Int(n int64) RawJSON { return strconv.AppendInt(nil, n, 10) }

// Bool returns b as JSON.
func Bool(b bool) RawJSON { return strconv.AppendBool(nil, b) }

// Strings returns a JSON array of texts.
func Strings(texts []string) RawJSON {
	elements := make([]RawJSON, len(texts))
	for i, text := range texts {
		elements[i] = String(text)
	}
	return Array(elements)
}

// Array returns the elements, each of them JSON, as a JSON array.
func Array[T ~[]byte](elements []T) RawJSON {
	size := len("[]")
	for _, element := range elements {
		size += len(element) + len(",")
	}
	out := append(make([]byte, 0, size), '[')
	for i, element := range elements {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, element...)
	}
	return append(out, ']')
}

// Object is a JSON object, kept as its members in their order with the text of each
// value. So members that nobody here knows pass through the gateway unchanged. The zero
// Object is {}. An Object is immutable, and several goroutines may read it at the same
// time: With and Without return another one.
type Object struct {
	members []Member
}

// Member is one name and value of an Object.
type Member = strictjson.Member

// NewObject returns an object of the given members in their order. Their names must
// differ. A member whose value is nil is left out.
func NewObject(members ...Member) Object {
	return Object{slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return m.Value == nil })}
}

// ObjectOf takes raw apart, one level deep. ok is false if raw is not an object. The
// object aliases raw.
func ObjectOf(raw RawJSON) (o Object, ok bool) {
	var few [8]Member // spares usual objects to grow
	found, ok := objectIn(few[:0], raw)
	if len(found.members) == 0 {
		return Object{}, ok
	}
	return Object{slices.Clone(found.members)}, ok
}

// objectIn is ObjectOf with a buffer for the members. If they do not fit, they are
// elsewhere.
func objectIn(buffer []Member, raw RawJSON) (o Object, ok bool) {
	if !raw.IsObject() {
		return Object{}, false
	}
	members, err := strictjson.Members(buffer, raw)
	return Object{members}, err == nil
}

// ParseObject checks data, which may come from anyone, and takes it apart. The error is a
// *strictjson.SyntaxError, also if data is not an object. The object aliases data, so
// data must not change any more.
func ParseObject(data []byte) (Object, error) {
	raw, err := ParseRaw(data)
	if err != nil {
		return Object{}, err
	}
	o, ok := ObjectOf(raw)
	if !ok {
		return Object{}, &strictjson.SyntaxError{Reason: "not an object"}
	}
	return o, nil
}

// ParseRaw checks data, which may come from anyone, and brings it into the form of
// RawJSON. The result may alias data. The error is a *strictjson.SyntaxError.
func ParseRaw(data []byte) (RawJSON, error) {
	if err := strictjson.Check(data); err != nil {
		return nil, err
	}
	return oneLine(data)
}

// oneLine returns checked data without line breaks and without space around it. In JSON a
// line break can only stand between tokens, so data that has none is already in form.
func oneLine(data []byte) (RawJSON, error) {
	data = bytes.TrimSpace(data)
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return data, nil
	}
	return strictjson.Compact(data)
}

// Len returns the count of members.
func (o Object) Len() int { return len(o.members) }

// Members yields the members in their order. It is an iterator: range over o.Members.
func (o Object) Members(yield func(name string, value RawJSON) bool) {
	for _, m := range o.members {
		if !yield(m.Name, m.Value) {
			return
		}
	}
}

// Value returns the value of the member with that name, nil if there is none. It goes
// through the members one by one, of which messages have few.
func (o Object) Value(name string) RawJSON { return strictjson.Find(o.members, name) }

// Has tells whether there is a member with that name.
func (o Object) Has(name string) bool { return o.Value(name) != nil }

// Text returns the text of the member with that name. It is "" if the member is absent or
// not a string.
func (o Object) Text(name string) string {
	text, _ := o.Value(name).Text()
	return text
}

// Object returns the member with that name. It is {} if the member is absent or not an
// object.
func (o Object) Object(name string) Object {
	inner, _ := ObjectOf(o.Value(name))
	return inner
}

// With returns o with the member set to value. The member keeps its place if o has it,
// and is added at the end otherwise. A nil value removes the member.
func (o Object) With(name string, value RawJSON) Object {
	if value == nil {
		return o.Without(name)
	}
	return o.WithAll(Member{Name: name, Value: value})
}

// WithAll returns o with each of the members set like With, in one copy. None of their
// values may be nil, and their names must differ.
func (o Object) WithAll(set ...Member) Object {
	members := make([]Member, len(o.members), len(o.members)+len(set))
	copy(members, o.members)
	for _, m := range set {
		i := slices.IndexFunc(members, func(other Member) bool { return other.Name == m.Name })
		if i < 0 {
			members = append(members, m)
		} else {
			members[i].Value = m.Value
		}
	}
	return Object{members}
}

// WithMeta returns o with that _meta, or without one if it is empty.
func (o Object) WithMeta(meta Object) Object {
	if meta.Len() == 0 {
		return o.Without("_meta")
	}
	return o.With("_meta", meta.JSON())
}

// Without returns o without the members of these names. It is o itself if o has none of
// them.
func (o Object) Without(names ...string) Object {
	named := func(m Member) bool { return slices.Contains(names, m.Name) }
	if !slices.ContainsFunc(o.members, named) {
		return o
	}
	return Object{slices.DeleteFunc(slices.Clone(o.members), named)}
}

// AppendJSON appends the text of o to dst, in one line.
func (o Object) AppendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	for i := range o.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strictjson.AppendQuote(dst, o.members[i].Name)
		dst = append(dst, ':')
		dst = append(dst, o.members[i].Value...)
	}
	return append(dst, '}')
}

// JSON returns the text of o in one line.
func (o Object) JSON() RawJSON { return o.AppendJSON(make([]byte, 0, o.Size())) }

// Size returns about how many bytes the text of o has.
func (o Object) Size() int {
	size := 2
	for i := range o.members {
		size += len(o.members[i].Name) + len(o.members[i].Value) + 4
	}
	return size
}

// MarshalJSON implements json.Marshaler.
func (o Object) MarshalJSON() ([]byte, error) { return o.JSON(), nil }
