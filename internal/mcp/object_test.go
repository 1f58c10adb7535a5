package mcp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

func object(t *testing.T, text string) mcp.Object {
	t.Helper()
	o, err := mcp.ParseObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestUnknownMembersSurvive shows that editing one member leaves every other byte as it
// came.
func TestUnknownMembersSurvive(t *testing.T) {
	t.Parallel()
	const text = `{"x":1.0,"name":"a","é\"":{"b": [1e2, "\u0061\/"]},"big":12345678901234567890.10,"z":null}`
	o := object(t, text)
	tests := []struct {
		name string
		got  mcp.Object
		want string
	}{
		{"untouched", o, text},
		{"set in place", o.With("name", mcp.String("b")), strings.Replace(text, `"a"`, `"b"`, 1)},
		{"added", o.With("new", mcp.Int(1)), strings.TrimSuffix(text, "}") + `,"new":1}`},
		{"taken out", o.Without("name", "none"), strings.Replace(text, `"name":"a",`, "", 1)},
		{"first taken out", o.Without("x"), strings.Replace(text, `"x":1.0,`, "", 1)},
		{"all taken out", o.Without("x", "name", `é"`, "big", "z"), `{}`},
		{"several edits", o.With("x", mcp.Bool(true)).Without("z").With("z",
			mcp.Array([]mcp.RawJSON{mcp.Int(1), mcp.String("q")})), strings.NewReplacer("1.0", "true", "null",
			`[1,"q"]`).Replace(text)},
	}
	for _, test := range tests {
		if got := string(test.got.JSON()); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	if got := string(o.JSON()); got != text {
		t.Errorf("the object itself became %s", got)
	}
}

// TestEditsDoNotShare shows that two objects made of one do not write into each other.
func TestEditsDoNotShare(t *testing.T) {
	t.Parallel()
	o := mcp.NewObject(mcp.Member{Name: "a", Value: mcp.Int(1)}).With("b", mcp.Int(2))
	left, right := o.With("c", mcp.Int(3)), o.With("d", mcp.Int(4))
	left2, right2 := left.With("e", mcp.Int(5)), left.With("f", mcp.Int(6))
	both := left.WithAll(mcp.Member{Name: "g", Value: mcp.Int(7)}, mcp.Member{Name: "b", Value: mcp.Int(8)})
	for got, want := range map[string]string{
		string(o.JSON()): `{"a":1,"b":2}`, string(left.JSON()): `{"a":1,"b":2,"c":3}`,
		string(right.JSON()): `{"a":1,"b":2,"d":4}`,
		string(left2.JSON()): `{"a":1,"b":2,"c":3,"e":5}`, string(right2.JSON()): `{"a":1,"b":2,"c":3,"f":6}`,
		string(both.JSON()): `{"a":1,"b":8,"c":3,"g":7}`,
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestObjectReads(t *testing.T) {
	t.Parallel()
	o := object(
		t, `{"text":"a\nb","number":5,"null":null,"object":{"inner":"x"},"array":[1,"b"],"fraction":1.0}`)
	if o.Text("text") != "a\nb" || o.Text("number") != "" || o.Text("none") != "" {
		t.Errorf("texts: %q, %q, %q", o.Text("text"), o.Text("number"), o.Text("none"))
	}
	if n, ok := o.Value("number").Int(); n != 5 || !ok {
		t.Errorf("number: %d, %v", n, ok)
	}
	if n, ok := o.Value("fraction").Int(); ok {
		t.Errorf("a fraction is the integer %d", n)
	}
	if !o.Has("null") || !o.Value("null").IsNull() || o.Has("none") || !o.Value("none").IsNull() ||
		o.Value("number").IsNull() {
		t.Error("null and absent members are mixed up")
	}
	if got := o.Object("object").Text("inner"); got != "x" || o.Object("text").Len() != 0 || o.Len() != 6 {
		t.Errorf("inner object: %q", got)
	}
	elements, ok := o.Value("array").Elements()
	if !ok || len(elements) != 2 || string(elements[1]) != `"b"` {
		t.Errorf("elements: %q, %v", elements, ok)
	}
	if _, ok := o.Value("object").Elements(); ok {
		t.Error("an object has elements")
	}
	if got := string((mcp.Object{}).JSON()); got != "{}" {
		t.Errorf("the zero object is %s", got)
	}
}

func TestMillisStayWithinTheirBounds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0": 0, "-5": 0, "1500": 1500 * time.Millisecond, "60000": time.Minute, "60001": time.Minute,
		"9223372036854775807": time.Minute, "-9223372036854775808": 0,
	} {
		if got, ok := mcp.RawJSON(text).Millis(time.Minute); got != want || !ok {
			t.Errorf("%s: got %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "null", "1.5", "1e3", `"5"`, "9223372036854775808"} {
		if got, ok := mcp.RawJSON(text).Millis(time.Minute); ok {
			t.Errorf("%q is the time %v", text, got)
		}
	}
}

func TestObjectsAreOneLine(t *testing.T) {
	t.Parallel()
	o := object(t, "\n{ \"a\" :\r\n [ 1 ,\n 2 ] , \"b\\n\" : \"c\\n d\" }\n")
	if got, want := string(o.JSON()), `{"a":[1,2],"b\n":"c\n d"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, text := range []string{"", "[]", "1", `{"a":1}x`, `{"a":1,"a":2}`} {
		if o, err := mcp.ParseObject([]byte(text)); err == nil {
			t.Errorf("ParseObject(%q) = %s", text, o.JSON())
		}
	}
}

// TestHeaders holds the codec to the examples of the specification.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
func TestHeaders(t *testing.T) {
	t.Parallel()
	for text, value := range map[string]string{
		"":                 "",
		"us-west1":         "us-west1",
		"two words":        "two words",
		"42":               "42",
		"Hello, 世界":        "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":         "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":     "=?base64?bGluZTEKbGluZTI=?=",
		"a\r\nb":           "=?base64?YQ0KYg==?=",
		"a\tb":             "=?base64?YQli?=",
		"\x00":             "=?base64?AA==?=",
		"\x7f":             "=?base64?fw==?=",
		"=?base64?YQ==?=":  "=?base64?PT9iYXNlNjQ/WVE9PT89?=",
		"=?base64?":        "=?base64?",
		"=?base64?=":       "=?base64?=",
		"=?BASE64?YQ==?=":  "=?BASE64?YQ==?=",
		"x=?base64?YQ==?=": "x=?base64?YQ==?=",
	} {
		if got := mcp.EncodeHeader(text); got != value {
			t.Errorf("EncodeHeader(%q) = %q, want %q", text, got, value)
		}
		if got, ok := mcp.DecodeHeader(" \t" + value + "\t "); !ok || got != text {
			t.Errorf("DecodeHeader(%q) = %q, %v, want %q", value, got, ok, text)
		}
	}
	for _, value := range []string{
		"世界", "a\tb", "a\x00b", "a\nb", "a\x7f", "\xff", "=?base64?%%%?=", "=?base64?YQ?=", "=?base64?YR==?=",
		"=?base64?YQ==YQ==?=", "=?base64?Y Q==?=",
		"=?base64?_-8=?=", "=?base64?/w==?=",
	} {
		if got, ok := mcp.DecodeHeader(value); ok {
			t.Errorf("DecodeHeader(%q) = %q, want it refused", value, got)
		}
	}
	if got, ok := mcp.DecodeHeader("=?base64??="); !ok || got != "" {
		t.Errorf("the sentinel form of nothing: got %q, %v", got, ok)
	}
}

// FuzzHeader shows that every text comes back from its header form, which is visible
// ASCII.
func FuzzHeader(f *testing.F) {
	f.Add("a", "=?base64?YQ==?=")
	f.Add("=?base64?=", " \x00")
	f.Fuzz(func(t *testing.T, text, value string) {
		text = strings.ToValidUTF8(text, "")
		header := mcp.EncodeHeader(text)
		for i := range len(header) {
			if header[i] < ' ' || header[i] > '~' {
				t.Fatalf("EncodeHeader(%q) = %q", text, header)
			}
		}
		if got, ok := mcp.DecodeHeader(header); !ok || got != text {
			t.Errorf("%q came back from %q as %q, %v", text, header, got, ok)
		}
		if decoded, ok := mcp.DecodeHeader(value); ok {
			if again, ok := mcp.DecodeHeader(mcp.EncodeHeader(decoded)); !ok || again != decoded {
				t.Errorf("%q decodes to %q and then to %q", value, decoded, again)
			}
		}
	})
}

// FuzzObject shows that an object's text is kept when it is taken apart, and that an edit
// touches one member only.
func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":[1.0,"\u0061"]}}`), "b")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		o, err := mcp.ParseObject(data)
		if err != nil {
			return
		}
		name = strings.ToValidUTF8(name, "")
		again := object(t, string(o.JSON()))
		if string(again.JSON()) != string(o.JSON()) {
			t.Errorf("%q became %q and then %q", data, o.JSON(), again.JSON())
		}
		edited := object(t, string(o.With(name, mcp.Int(7)).JSON()))
		if string(edited.Value(name)) != "7" || edited.Has(name) != true {
			t.Errorf("%q with %q: %q", data, name, edited.JSON())
		}
		for member, value := range o.Members {
			if got := edited.Value(member); member != name && string(got) != string(value) {
				t.Errorf("%q with %q: member %q became %q", data, name, member, got)
			}
		}
		if rest := object(t, string(edited.Without(name).JSON())); rest.Has(name) {
			t.Errorf("%q without %q: %q", data, name, rest.JSON())
		}
	})
}
