package registry_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const (
	citySchema = `{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`
	cityData   = `{"city":"Lisbon"}`
)

// offer puts a tool with these schemas into a registry, without outputSchema when output
// is "".
func offer(t testing.TB, input, output string) (*registry.Tool, []registry.Refusal) {
	t.Helper()
	definition := mcp.NewObject(
		mcp.Member{Name: "name", Value: mcp.String("tool")},
		mcp.Member{Name: "inputSchema", Value: mcp.RawJSON(input)},
	)
	if output != "" {
		definition = definition.With("outputSchema", mcp.RawJSON(output))
	}
	r := registry.New()
	refused := r.Replace(registry.Source{
		Name:  "s",
		Tools: []registry.Offer{{Definition: definition, Timeout: time.Second}},
	})
	tool, _ := r.Catalogue().View([]string{"s"}).Lookup("tool")
	return tool, refused
}

func TestArgumentsAreChecked(t *testing.T) {
	tool, refused := offer(t, citySchema, "")
	if tool == nil {
		t.Fatal(refused)
	}
	for _, test := range []struct{ arguments, want string }{
		{cityData, ""},
		{`{}`, "city: is required"},
		{``, "city: is required"},
		{`{"city":"secret","town":"secret"}`, "town: is not allowed here; allowed: city"},
		{
			`{"city":"secret","City":"secret"}`,
			"arguments: must not have both City and city, whose names differ only in form",
		},
	} {
		var arguments mcp.RawJSON // nil for "": no arguments
		if test.arguments != "" {
			arguments = mcp.RawJSON(test.arguments)
		}
		got := ""
		if err := tool.ValidateWithin(arguments, nil); err != nil {
			got = err.Error()
			if _, ok := errors.AsType[*registry.ArgumentError](err); !ok {
				t.Errorf("%s: got a %T, want an *ArgumentError", test.arguments, err)
			}
		}
		if got != test.want {
			t.Errorf("%s: got %q, want %q", test.arguments, got, test.want)
		}
	}
}

// TestToolsStayWithoutWhatCannotBeEnforced: the input schema is shown as it is, and an
// output schema that is refused is left out. The operator is told of both.
func TestToolsStayWithoutWhatCannotBeEnforced(t *testing.T) {
	const email = `{"type":"object","properties":{"to":{"type":"string","pattern":"^(?!\\.)(?!.*\\.\\.)\\S+@\\S+$"}},"required":["to"]}`
	large := `{"type":"object","description":"` + strings.Repeat("x", 75<<10) + `"}`
	const gap = `inputSchema: at "#/properties/to/pattern": a pattern that RE2 would read differently or not at all`
	for _, test := range []struct {
		name, output string
		shown        bool
		want         []string
	}{
		{"no output schema", "", false, []string{gap}},
		{
			"output schema that cannot be checked", email, true,
			[]string{gap, "outputSchema" + strings.TrimPrefix(gap, "inputSchema")},
		},
		{
			"output schema of 75 KB", large, false,
			[]string{gap, "outputSchema is left out: the schema has more than 65536 bytes"},
		},
		{
			"larger than a definition may be", `{"x":[` + large + `,` + large + `]}`, false,
			[]string{gap, "outputSchema is left out: the schema has more than 65536 bytes"},
		},
		{
			"no schema", `{"type":"strnig"}`, false,
			[]string{gap, "outputSchema is left out: at #: type must be one or several of null, boolean, object, array, string, number, integer"},
		},
		{"null", `null`, false, []string{gap, "outputSchema is left out: a schema is an object here"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			tool, refused := offer(t, email, test.output)
			if tool == nil {
				t.Fatal(refused)
			}
			shown := `{"name":"tool","inputSchema":` + email + `}`
			if test.shown {
				shown = `{"name":"tool","inputSchema":` + email + `,"outputSchema":` + test.output + `}`
			}
			if string(tool.Raw) != shown || tool.HasOutput() != test.shown {
				t.Errorf("got %.300s, output %v; want %s", tool.Raw, tool.HasOutput(), shown)
			}
			if !slices.Equal(tool.Unenforced, test.want) {
				t.Errorf("got %q, want %q", tool.Unenforced, test.want)
			}
			if tool.ValidateWithin(mcp.RawJSON(`{"to":"..a"}`), nil) != nil ||
				tool.ValidateWithin(mcp.RawJSON(`{"to":1}`), nil) == nil {
				t.Error("more than the pattern is not enforced, or it is")
			}
			if tool.ValidateOutputWithin(mcp.RawJSON(`{"to":1}`), nil) == nil == test.shown {
				t.Errorf("the output is checked: %v", !test.shown)
			}
		})
	}
}

func TestNilArgumentsAreAnEmptyObject(t *testing.T) {
	tool, _ := offer(t, `{"type":"object"}`, "")
	if err := tool.ValidateWithin(nil, nil); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestOutputIsChecked(t *testing.T) {
	plain, _ := offer(t, `{"type":"object"}`, "")
	if plain.HasOutput() || plain.ValidateOutputWithin(mcp.RawJSON(`1`), nil) != nil ||
		plain.ValidateOutputWithin(nil, nil) != nil {
		t.Error("a tool without outputSchema takes any output")
	}
	tool, _ := offer(t, `{"type":"object"}`, `{"items":{"type":"integer"},"not":{"type":"string"}}`)
	for _, test := range []struct{ structured, want string }{
		{`[1,2]`, ""},
		{`{"a":1,"A":2}`, ""}, // names that are alike are for arguments alone
		{`[1,"secret"]`, "1: must be an integer, got a string"},
		{`"secret"`, "structuredContent: has a form that is excluded"},
		{``, "structuredContent: is required by the output schema"},
	} {
		var structured mcp.RawJSON
		if test.structured != "" {
			structured = mcp.RawJSON(test.structured)
		}
		got := ""
		if err := tool.ValidateOutputWithin(structured, nil); err != nil {
			got = err.Error()
		}
		if !tool.HasOutput() || got != test.want {
			t.Errorf("%s: got %q, want %q", test.structured, got, test.want)
		}
	}
}

func TestInlinedInputKeepsItsType(t *testing.T) {
	tool, refused := offer(t,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","$ref":"#/definitions/a","definitions":{"a":{"required":["x"]}}}`, "")
	if tool == nil {
		t.Fatal(refused)
	}
	const want = `"inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","required":["x"],"type":"object"}`
	if got := string(tool.Inlined()); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s in it", got, want)
	}
	if first, second := tool.Inlined(), tool.Inlined(); &first[0] != &second[0] {
		t.Error("made twice")
	}
}

func TestBothSchemasAreInlined(t *testing.T) {
	const referring = `{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}`
	tool, refused := offer(t, referring, referring)
	if tool == nil {
		t.Fatal(refused)
	}
	const plain = `{"type":"object","properties":{"a":{"type":"string"}}}`
	if got, want := string(tool.Inlined()), `{"name":"tool","inputSchema":`+plain+`,"outputSchema":`+plain+
		`}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWhatWouldBeTooLargeIsNotInlined(t *testing.T) {
	var doubling []string
	for i := range 40 {
		doubling = append(doubling,
			fmt.Sprintf(`"d%d":{"properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}}`, i,
				i+1, i+1))
	}
	tool, refused := offer(t, `{"type":"object"}`, `{"$ref":"#/$defs/d0","$defs":{`+strings.Join(doubling,
		",")+`,"d40":{"type":"string"}}}`)
	if tool == nil {
		t.Fatal(refused)
	}
	if got := tool.Inlined(); string(got) != string(tool.Raw) {
		t.Errorf("got %d bytes, want the definition as it is", len(got))
	}
}

func TestRealToolSchemasAreAccepted(t *testing.T) {
	tools := corpus.Tools(t)
	t.Attr("schemas", fmt.Sprint(len(tools)))
	for name, data := range tools {
		definition, err := mcp.ParseObject(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r := registry.New()
		source := registry.Source{
			Name: "github", Prefix: "github",
			Tools: []registry.Offer{{Definition: definition, Timeout: time.Second}},
		}
		if refused := r.Replace(source); len(refused) > 0 {
			t.Errorf("%s: refused: %s: %v", name, refused[0].Reason, refused[0].Err)
		}
	}
}

// FuzzToolSchemas makes tools of schemas of any kind, and calls them with values of any
// kind. Nothing may panic, and no text may grow beyond what a model should read.
func FuzzToolSchemas(f *testing.F) {
	f.Add([]byte(citySchema), []byte(cityData))
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}`),
		[]byte(`{"a":null}`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#"}},"additionalProperties":false}`),
		[]byte(`{"a":{"a":{}}}`))
	f.Fuzz(func(t *testing.T, schema, data []byte) {
		raw, err := mcp.ParseRaw(schema)
		if err != nil {
			return
		}
		value, err := mcp.ParseRaw(data)
		if err != nil {
			return
		}
		if tool, _ := offer(t, string(raw), string(raw)); tool != nil {
			for _, err := range []error{tool.ValidateWithin(value, nil), tool.ValidateOutputWithin(value, nil)} {
				if err != nil && len(err.Error()) > 1024 {
					t.Errorf("a text of %d bytes", len(err.Error()))
				}
			}
			if _, err := mcp.ParseObject(tool.Inlined()); err != nil {
				t.Errorf("%s became %s: %v", raw, tool.Inlined(), err)
			}
		}
	})
}

func BenchmarkReplace(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		offer(b, citySchema, "")
	}
}
