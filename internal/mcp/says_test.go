package mcp_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestSaysWhatTextReads compares Says with Text, for texts with and without escapes.
func TestSaysWhatTextReads(t *testing.T) {
	values := []string{
		`""`, `"a"`, `"tools/call"`, `"tools\/call"`, `"\u0061"`, `"\""`, `"\\"`, `1`, `null`,
		`true`, `{}`, `["a"]`,
	}
	texts := []string{"", "a", "tools/call", `tools\/call`, `"`, `\`, `\u0061`, "1", "null", "{}"}
	for _, value := range append(values, "") {
		for _, text := range texts {
			raw := mcp.RawJSON(value)
			said, isText := raw.Text()
			if got, want := raw.Says(text), isText && said == text; got != want {
				t.Errorf("%s says %q: got %v, want %v", value, text, got, want)
			}
			if raw.IsText() != isText {
				t.Errorf("%s: got a text %v, want %v", value, raw.IsText(), isText)
			}
		}
	}
}

func TestMemberFindsWhatObjectHas(t *testing.T) {
	const many = `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":{"j":9},"k":null}`
	for _, name := range []string{"a", "h", "i", "k", "j", ""} {
		object, _ := mcp.ObjectOf(mcp.RawJSON(many))
		if got, want := mcp.RawJSON(many).Member(name), object.Value(name); string(got) != string(want) ||
			(got == nil) != (want == nil) {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
	for _, other := range []string{"", "null", "1", `"a"`, `["a"]`, "{}"} {
		if got := mcp.RawJSON(other).Member("a"); got != nil {
			t.Errorf("in %s: got %s, want nothing", other, got)
		}
	}
}

// TestMethodIsReadAsItIsSpelt asks for methods that are known, escaped, and no strings.
func TestMethodIsReadAsItIsSpelt(t *testing.T) {
	for method, want := range map[string]string{
		`"tools/call"`: "tools/call", `"tools\/call"`: "tools/call", `"my/own"`: "my/own", `"x"`: "x",
		`[tools/call]`: "", `7`: "", `"tools/call "`: "tools/call ", `""`: "",
	} {
		m, err := mcp.Decode([]byte(`{"jsonrpc":"2.0","id":1,"method":` + method + `}`))
		if m.Method != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", method, m.Method, err, want)
		}
	}
}

// TestMetaIsThatOfTheParams reads _meta once, however many members there are.
func TestMetaIsThatOfTheParams(t *testing.T) {
	for _, params := range []string{
		`{}`, `{"_meta":{}}`,
		`{"a":1,"b":2,"c":3,"d":4,"_meta":{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7}}`,
	} {
		m, err := mcp.Decode([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + params + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := m.Meta.JSON(), m.Params.Object("_meta").JSON(); string(got) != string(want) {
			t.Errorf("got %s, want %s", got, want)
		}
		if string(m.Params.JSON()) != params {
			t.Errorf("got params %s, want %s", m.Params.JSON(), params)
		}
	}
}
