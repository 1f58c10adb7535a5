package registry_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

func TestT34Headers(t *testing.T) {
	on := func(schema string) string { return `{"type":"object","properties":{"a":` + schema + `}}` }
	for _, test := range []struct {
		name, schema string
		want         []registry.HeaderParam // nil: refused
	}{
		{
			"string", on(`{"type":"string","x-mcp-header":"Region"}`),
			[]registry.HeaderParam{{Header: "Region", Path: []string{"a"}, Type: "string"}},
		},
		{
			"integer", on(`{"type":"integer","x-mcp-header":"N"}`),
			[]registry.HeaderParam{{Header: "N", Path: []string{"a"}, Type: "integer"}},
		},
		{
			"boolean", on(`{"type":"boolean","x-mcp-header":"Flag"}`),
			[]registry.HeaderParam{{Header: "Flag", Path: []string{"a"}, Type: "boolean"}},
		},
		{
			"nested", on(
				`{"type":"object","properties":{"b":{"properties":{"c":{"type":"string","x-mcp-header":"X"}}}}}`),
			[]registry.HeaderParam{{Header: "X", Path: []string{"a", "b", "c"}, Type: "string"}},
		},
		{
			"every character of a token", on("{\"type\":\"string\",\"x-mcp-header\":\"!#$%&'*+-.^_`|~0zA\"}"),
			[]registry.HeaderParam{{Header: "!#$%&'*+-.^_`|~0zA", Path: []string{"a"}, Type: "string"}},
		},
		{
			"property of that name", `{"type":"object","properties":{"x-mcp-header":{"type":"number"}}}`,
			[]registry.HeaderParam{},
		},
		{
			"in const, default and examples",
			on(
				`{"const":{"x-mcp-header":""},"default":{"x-mcp-header":""},"examples":[{"x-mcp-header":""}]}`),
			[]registry.HeaderParam{},
		},
		{"two", `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"B"}}}`, []registry.HeaderParam{{Header: "A", Path: []string{"a"}, Type: "string"}, {Header: "B", Path: []string{"b"}, Type: "string"}}},

		{
			"64 bytes", on(`{"type":"string","x-mcp-header":"` + strings.Repeat("a", 64) + `"}`),
			[]registry.HeaderParam{{Header: strings.Repeat("a", 64), Path: []string{"a"}, Type: "string"}},
		},

		{name: "65 bytes", schema: on(`{"type":"string","x-mcp-header":"` + strings.Repeat("a", 65) + `"}`)},
		{name: "empty", schema: on(`{"type":"string","x-mcp-header":""}`)},
		{name: "no string", schema: on(`{"type":"string","x-mcp-header":7}`)},
		{name: "null", schema: on(`{"type":"string","x-mcp-header":null}`)},
		{name: "space", schema: on(`{"type":"string","x-mcp-header":"My Region"}`)},
		{name: "colon", schema: on(`{"type":"string","x-mcp-header":"Region:Primary"}`)},
		{name: "CRLF", schema: on(`{"type":"string","x-mcp-header":"A\r\nB"}`)},
		{name: "tab", schema: on(`{"type":"string","x-mcp-header":"A\tB"}`)},
		{name: "NUL", schema: on(`{"type":"string","x-mcp-header":"A\u0000"}`)},
		{name: "not ASCII", schema: on(`{"type":"string","x-mcp-header":"Región"}`)},
		{name: "number", schema: on(`{"type":"number","x-mcp-header":"A"}`)},
		{name: "object", schema: on(`{"type":"object","x-mcp-header":"A"}`)},
		{name: "array", schema: on(`{"type":"array","x-mcp-header":"A"}`)},
		{name: "null type", schema: on(`{"type":"null","x-mcp-header":"A"}`)},
		{name: "no type", schema: on(`{"x-mcp-header":"A"}`)},
		{name: "several types", schema: on(`{"type":["string","integer"],"x-mcp-header":"A"}`)},
		{name: "twice", schema: `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"A"}}}`},
		{
			name:   "twice but for case",
			schema: `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"Region"},"b":{"type":"string","x-mcp-header":"REGION"}}}`,
		},
		{name: "root", schema: `{"type":"object","x-mcp-header":"A"}`},
		{name: "items", schema: on(`{"type":"array","items":{"type":"string","x-mcp-header":"A"}}`)},
		{name: "below items", schema: on(
			`{"items":{"properties":{"b":{"type":"string","x-mcp-header":"A"}}}}`)},
		{name: "anyOf", schema: on(`{"anyOf":[{"type":"string","x-mcp-header":"A"}]}`)},
		{
			name:   "allOf with properties",
			schema: `{"type":"object","allOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}`,
		},
		{name: "if", schema: on(`{"if":{"type":"string","x-mcp-header":"A"}}`)},
		{
			name:   "additionalProperties",
			schema: `{"type":"object","additionalProperties":{"type":"string","x-mcp-header":"A"}}`,
		},
		{name: "definition", schema: `{"type":"object","properties":{"a":{"$ref":"#/$defs/d"}},"$defs":{"d":{"type":"string","x-mcp-header":"A"}}}`},
		{
			name:   "beside $ref in draft-07",
			schema: `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#/definitions/d","type":"string","x-mcp-header":"A"}},"definitions":{"d":{}}}`,
		},
		{name: "Content-Length", schema: on(`{"type":"integer","x-mcp-header":"Content-Length"}`)},
		{name: "host", schema: on(`{"type":"string","x-mcp-header":"host"}`)},
		{name: "Authorization", schema: on(`{"type":"string","x-mcp-header":"Authorization"}`)},
		{name: "COOKIE", schema: on(`{"type":"string","x-mcp-header":"COOKIE"}`)},
		{name: "Transfer-Encoding", schema: on(`{"type":"string","x-mcp-header":"Transfer-Encoding"}`)},
		{name: "Connection", schema: on(`{"type":"string","x-mcp-header":"Connection"}`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			tool, refused := offer(t, test.schema, "")
			if test.want == nil {
				if tool != nil || len(refused) != 1 || refused[0].Reason != "header" {
					t.Errorf("got %+v, want a refusal for the header", refused)
				}
				return
			}
			if tool == nil {
				t.Fatalf("refused: %+v", refused)
			}
			if len(test.want)+len(tool.Headers) > 0 {
				if diff := cmp.Diff(test.want, tool.Headers); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// A header cannot repeat null, so null there is the same as no argument.
func TestNullAtHeaderIsNoArgument(t *testing.T) {
	tool, refused := offer(t, `{"type":"object","required":["must"],"additionalProperties":false,"properties":{
		"must":{"type":"string","x-mcp-header":"Must"},
		"verbose":{"type":"boolean","x-mcp-header":"Verbose"},
		"deep":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}},
		"plain":{"type":"string"}}}`, "")
	if tool == nil {
		t.Fatalf("refused: %+v", refused)
	}
	for arguments, want := range map[string]bool{
		`{"must":"a","verbose":null}`:                        true,
		`{"must":"a","verbose":null,"deep":{"region":null}}`: true,
		`{"must":null}`:                         false,
		`{"must":"a","plain":null}`:             false,
		`{"must":"a","verbose":null,"plain":7}`: false,
		`{"must":"a","deep":null}`:              false,
	} {
		if err := tool.ValidateWithin([]byte(arguments), nil); (err == nil) != want {
			t.Errorf("%s: got %v, want valid: %t", arguments, err, want)
		}
	}
}
