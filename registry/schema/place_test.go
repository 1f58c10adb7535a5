package schema_test

import (
	"errors"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// TestPlaceHasNamesOfTheSchemaAlone shows where the first problem of a value is said to
// be: the place goes into records, so no name that the value chose is in it.
func TestPlaceHasNamesOfTheSchemaAlone(t *testing.T) {
	t.Parallel()
	const nested = `{"type":"object","properties":{
		"files":{"type":"array","items":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}},
		"env":{"type":"object","additionalProperties":{"type":"object","properties":{"on":{"type":"boolean"}}}},
		"tags":{"type":"object","patternProperties":{"^x-":{"type":"string"}},"propertyNames":{"maxLength":5}},
		"way":{"anyOf":[{"type":"object","properties":{"by":{"const":"road"}},"required":["by"]}]},
		"a/b":{"type":"string"}}}`
	for _, test := range []struct{ name, schema, value, want string }{
		{"missing", smallSchema, `{}`, "/city"},
		{"of the wrong type", smallSchema, `{"city":7}`, "/city"},
		{"in a list", nested, `{"files":[{"path":"x"},{"path":7}]}`, "/files/1/path"},
		{"missing in a list", nested, `{"files":[{}]}`, "/files/0/path"},
		{"in a branch", nested, `{"way":{"by":"sea"}}`, "/way/by"},
		{"surplus", smallSchema, `{"city":"x","secret":1}`, ""},
		{"surplus in a list", nested, `{"files":[{"path":"x","secret":1}]}`, "/files/0"},
		{"below a name of the value", nested, `{"env":{"secret":{"on":7}}}`, "/env"},
		{"a name that fits a pattern", nested, `{"tags":{"x-s":7}}`, "/tags"},
		{"a name that is not allowed", nested, `{"tags":{"secret":"x"}}`, "/tags"},
		{"behind a name of the value", nested, `{"env":{"secret":{"on":true}},"files":[7]}`, "/files/0"},
		{"as a whole", smallSchema, `[]`, ""},
		{"a name that needs quotes", nested, `{"a/b":7}`, `/"a~1b"`},
	} {
		err := compile(t, test.schema).CheckUnambiguousWithin(mcp.RawJSON(test.value), "arguments", nil)
		mismatch, is := errors.AsType[*schema.MismatchError](err)
		if !is || mismatch.Path != test.want {
			t.Errorf("%s: got %+v, want the place %q", test.name, err, test.want)
		}
	}
}
