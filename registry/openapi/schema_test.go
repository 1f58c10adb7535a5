package openapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/openapi"
)

// notes returns what is noted of a document's operations.
func notes(t testing.TB, cfg openapi.Config) []string {
	t.Helper()
	loaded, err := openapi.Load(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return loaded.Notes
}

// TestAPatternThatCannotBeReadIsNotEnforced: it is shown all the same, and nothing
// becomes stricter for it.
func TestAPatternThatCannotBeReadIsNotEnforced(t *testing.T) {
	cfg := newAPI(t).config(document(t, "patterns.yaml"), "save")
	tools, refused := load(t, cfg)
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	for arguments, valid := range map[string]bool{
		`{"name":"a"}`: true, `{"name":"a","page":"7"}`: true, `{"name":"a","page":"x"}`: false,
		`{"name":7}`:                        false,
		`{"name":"a","body":{"title":"x"}}`: true, `{"name":"a","body":{"kind":"abc"}}`: true,
		`{"name":"a","body":{"kind":7}}`:           false,
		`{"name":"a","body":{"labels":{"x":"y"}}}`: true, `{"name":"a","body":{"labels":{"n-x":"y"}}}`: false,
	} {
		if err := tools["save"].ValidateWithin(mcp.RawJSON(arguments), nil); (err == nil) != valid {
			t.Errorf("%s: got error %v, want none: %v", arguments, err, valid)
		}
	}
	if raw := string(tools["save"].Raw); !strings.Contains(raw, `"pattern":"^(?!\\.)\\w+$"`) ||
		!strings.Contains(raw, `"oneOf"`) {
		t.Errorf("it is not shown: %s", raw)
	}
	if got := tools["save"].Unenforced; len(got) != 7 ||
		!strings.HasPrefix(got[0], `inputSchema: at "#/properties/name/pattern": `) {
		t.Errorf("not enforced: got %q", got)
	}
}

// TestReferencesThatNeedADynamicScopeCostNoTool: OpenAI's document has such schemas, as
// has any with generic ones.
func TestReferencesThatNeedADynamicScopeCostNoTool(t *testing.T) {
	cfg := newAPI(t).config([]byte(`{"openapi":"3.1.0","paths":{
		"/filter":{"post":{"operationId":"filter","requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Compound"}}}},"responses":{}}},
		"/page":{"post":{"operationId":"page","requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{
			"books":{"$ref":"#/components/schemas/Books"},"cars":{"$ref":"#/components/schemas/Cars"}}}}}},"responses":{}}}},
		"components":{"schemas":{
			"Compound":{"$recursiveAnchor":true,"type":"object","properties":{"kind":{"enum":["and","or"]},"filters":{"items":{"oneOf":[{"type":"string"},{"$recursiveRef":"#"}]}}},"required":["kind"]},
			"List":{"type":"array","items":{"$dynamicRef":"#item"},"$defs":{"any":{"$dynamicAnchor":"item"}}},
			"Books":{"$ref":"#/components/schemas/List","$defs":{"book":{"$dynamicAnchor":"item","type":"string"}}},
			"Cars":{"$ref":"#/components/schemas/List","$defs":{"car":{"$dynamicAnchor":"item","type":"integer"}}}}}}`), "*")
	tools, refused := load(t, cfg)
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	for _, test := range []struct {
		tool, body string
		valid      bool
	}{
		{"filter", `{"kind":"and","filters":["x",{"kind":"or"}]}`, true},
		{"filter", `{"kind":"nor"}`, false},
		{"filter", `{}`, false},
		{"page", `{"books":["x"],"cars":[1]}`, true},
		{"page", `{"books":"x"}`, false},
	} {
		if err := tools[test.tool].ValidateWithin(mcp.RawJSON(`{"body":`+test.body+
			`}`), nil); (err == nil) != test.valid {
			t.Errorf("%s %s: got error %v, want none: %v", test.tool, test.body, err, test.valid)
		}
		if len(tools[test.tool].Unenforced) == 0 {
			t.Errorf("%s: nobody is told", test.tool)
		}
	}
}

// A parameter that may be missing and cannot be an argument is left out of its operation,
// and a note says so.
func TestParametersThatAreLeftOutAreNoted(t *testing.T) {
	cfg := newAPI(t).config(
		withParameter(
			`{"name":"a","in":"query","schema":{"type":"object"}},{"name":"s","in":"cookie","schema":{}}`))
	if tools, refused := load(t, cfg); tools["op"] == nil {
		t.Errorf("got %v, want a tool", refused)
	}
	want := []string{
		`operation "op": query parameter "a" is left out: it is an object whose properties would become parameters of their own`,
		`operation "op": cookie parameter "s" is left out: no argument may set a cookie`,
	}
	if got := notes(t, cfg); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWhatOneSideLacksIsNotRequiredThere has the property in one part of a schema that is
// required in another.
func TestWhatOneSideLacksIsNotRequiredThere(t *testing.T) {
	const base = `"Base":{"type":"object","required":["id"],"properties":{"id":{"type":"string","readOnly":true},` +
		`"kind":{"type":"string"}}}`
	for name, test := range map[string]struct{ schema, more string }{
		"the whole requires": {schema: `{"allOf":[{"$ref":"#/components/schemas/Base"}],"required":["id","name"]}`},
		"a part beside it requires": {
			schema: `{"allOf":[{"$ref":"#/components/schemas/Base"},{"required":["name","id"]}]}`,
		},
		"a part of a part has it": {
			schema: `{"allOf":[{"$ref":"#/components/schemas/Middle"},{"allOf":[{"required":["name","id"]}]}]}`,
			more:   `,"Middle":{"allOf":[{"$ref":"#/components/schemas/Base"}]}`,
		},
		"beside the reference": {
			schema: `{"$ref":"#/components/schemas/Base","required":["id","name"],"unevaluatedProperties":false,` +
				`"properties":{"name":{"type":"string"}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tools, refused := load(t, newAPI(t).config([]byte(`{"openapi":"3.1.0","paths":{"/a":{"post":{
				"operationId":"make","requestBody":{"required":true,"content":{"application/json":{"schema":`+
				test.schema+`}}},"responses":{}}}},"components":{"schemas":{`+base+test.more+`}}}`), "*"))
			if len(refused) > 0 {
				t.Fatal(refused[0].Err)
			}
			for body, valid := range map[string]bool{`{"name":"x"}`: true, `{"kind":"y"}`: false} {
				err := tools["make"].ValidateWithin(mcp.RawJSON(`{"body":`+body+`}`), nil)
				if (err == nil) != valid {
					t.Errorf("%s: got error %v, want none: %v", body, err, valid)
				}
			}
		})
	}
}

// TestParametersOfJSONMayHaveACharset: some generators write one in every media type.
func TestParametersOfJSONMayHaveACharset(t *testing.T) {
	a := newAPI(t)
	tools, refused := load(t, a.config([]byte(`{"openapi":"3.0.3","paths":{"/a":{"get":{"operationId":"find","parameters":[
		{"name":"filter","in":"query","required":true,"content":{"application/json; charset=utf-8":{"schema":{"type":"object"}}}}],
		"responses":{}}}}}`)))
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	mustUse(t, tools["find"], `{"filter":{"a":[1]}}`)
	if r, _ := a.last(t); r.URL.Query().Get("filter") != `{"a":[1]}` {
		t.Errorf("sent %s", r.URL)
	}
}

// TestTheSchemaOfEncodedTextLeadsSomewhere refers from the schema of what a text holds to
// a component: the tool has that as a definition of its own.
func TestTheSchemaOfEncodedTextLeadsSomewhere(t *testing.T) {
	cfg := newAPI(t).config([]byte(`{"openapi":"3.1.0","paths":{
		"/save":{"post":{"operationId":"save","requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{
			"text":{"type":"string","contentMediaType":"application/json","contentSchema":{"$ref":"#/components/schemas/Note"}}}}}}},"responses":{}}}},
		"components":{"schemas":{"Note":{"type":"object","title":"of a note"}}}}`), "*")
	tools, refused := load(t, cfg)
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	if raw := string(tools["save"].Raw); strings.Contains(raw, "#/components/") || !strings.Contains(raw, "of a note") {
		t.Errorf("got %s, want the schema of the text in the tool", raw)
	}
}

// TestKeywordsWithoutAValueSayNothing: some generators write null and [] for those.
func TestKeywordsWithoutAValueSayNothing(t *testing.T) {
	tools, refused := load(t, newAPI(t).config(withParameter(`{"name":"q","in":"query","description":"of it",
		"schema":{"type":"string","description":"","enum":[],"allOf":[],"required":null,"pattern":null,"maxLength":null,
		"items":null,"default":null,"x-null":null}}`)))
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	want := `"q":{"default":null,"description":"of it","type":"string"}`
	if raw := string(tools["op"].Raw); !strings.Contains(raw, want) {
		t.Errorf("got %s, want %s", raw, want)
	}
}

// TestReadOnlyIsSeenBehindAReferenceToAReference has a component that is a reference, as
// most are in documents of several files.
func TestReadOnlyIsSeenBehindAReferenceToAReference(t *testing.T) {
	tools, refused := load(t, newAPI(t).config([]byte(`{"openapi":"3.0.3","paths":{"/a":{"post":{"operationId":"op",
		"requestBody":{"content":{"application/json":{"schema":{"type":"object","required":["id","n"],"properties":{
		"id":{"$ref":"#/components/schemas/Id"},"n":{"type":"string"}}}}}}}}},"components":{"schemas":{
		"Id":{"$ref":"#/components/schemas/UUID"},"UUID":{"type":"string","readOnly":true}}}}`), "*"))
	if len(refused) > 0 {
		t.Fatal(refused[0].Err)
	}
	if raw := string(tools["op"].Raw); strings.Contains(raw, `"id"`) {
		t.Errorf("got %s, want no id", raw)
	}
}
