package schema_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// maxInlined is more than any schema of these tests becomes.
const maxInlined = 2 * schema.MaxSize

// inlined returns the schema as inlined, or as it is when it has no references or would
// become too large.
func inlined(t testing.TB, text string) mcp.RawJSON {
	t.Helper()
	raw := compact(t, []byte(text))
	s := compile(t, text)
	if !s.HasReferences() {
		return raw
	}
	fresh, ok := s.Inline(maxInlined)
	if !ok {
		return raw
	}
	return fresh
}

func TestReferencesAreInlined(t *testing.T) {
	for _, test := range []struct{ name, schema, want string }{
		{
			"none", `{"type":"object","$defs":{"a":{}}, "properties":{}}`,
			`{"type":"object","$defs":{"a":{}}, "properties":{}}`,
		},
		{
			"pointer", `{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string"}}}`,
			`{"properties":{"a":{"type":"string"}}}`,
		},
		{"definitions", `{"properties":{"a":{"$ref":"#/definitions/x"}},"definitions":{"x":{"type":"string"}}}`, `{"properties":{"a":{"type":"string"}}}`},
		{
			"pointer to a property", `{"properties":{"a":{"$ref":"#/properties/b"},"b":{"type":"string"}}}`,
			`{"properties":{"a":{"type":"string"},"b":{"type":"string"}}}`,
		},
		{"escaped pointer", `{"properties":{"a":{"$ref":"#/$defs/x~1y%20z"}},"$defs":{"x/y z":{"type":"string"}}}`, `{"properties":{"a":{"type":"string"}}}`},
		{
			"anchor", `{"items":{"$ref":"#x"},"$defs":{"y":{"$anchor":"x","type":"string"}}}`,
			`{"items":{"type":"string"}}`,
		},
		{"chain", `{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"items":{"$ref":"#/$defs/c"}},"c":{"type":"null"}}}`, `{"items":{"items":{"type":"null"}}}`},
		{"description beside", `{"items":{"$ref":"#/$defs/a","description":"mine"},"$defs":{"a":{"description":"its","type":"null"}}}`, `{"items":{"description":"mine","type":"null"}}`},
		{
			"assertion beside", `{"items":{"$ref":"#/$defs/a","minLength":1},"$defs":{"a":{"type":"string"}}}`,
			`{"items":{"minLength":1,"type":"string"}}`,
		},
		{
			"the same keyword beside",
			`{"items":{"$ref":"#/$defs/a","minLength":1},"$defs":{"a":{"minLength":2}}}`,
			`{"items":{"minLength":1,"allOf":[{"minLength":2}]}}`,
		},
		{
			"properties beside closed ones",
			`{"items":{"$ref":"#/$defs/a","properties":{"p":true}},"$defs":{"a":{"additionalProperties":false}}}`, `{"items":{"properties":{"p":true},"allOf":[{"additionalProperties":false}]}}`,
		},
		{"beside allOf", `{"items":{"$ref":"#/$defs/a","minLength":1,"allOf":[{"maxLength":9}]},"$defs":{"a":{"minLength":2}}}`, `{"items":{"minLength":1,"allOf":[{"maxLength":9},{"minLength":2}]}}`},
		{"true", `{"items":{"$ref":"#/$defs/a"},"$defs":{"a":true}}`, `{"items":{}}`},
		{"false", `{"items":{"$ref":"#/$defs/a"},"$defs":{"a":false}}`, `{"items":{"allOf":[false]}}`},
		{"root of draft-07", `{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/a","minLength":7,"definitions":{"a":{"type":"string"}}}`, `{"$schema":"http://json-schema.org/draft-07/schema#","type":"string"}`},
		{
			"names that look like keywords",
			`{"properties":{"$ref":{"$ref":"#/$defs/x"},"$defs":{"type":"null"}},"$defs":{"x":{"enum":[{"$ref":"#/nowhere"}]}}}`, `{"properties":{"$ref":{"enum":[{"$ref":"#/nowhere"}]},"$defs":{"type":"null"}}}`,
		},
		{
			"recursion", `{"type":"object","description":"node","properties":{"next":{"$ref":"#"}}}`,
			`{"type":"object","description":"node","properties":{"next":{"description":"node"}}}`,
		},
		{
			"recursion through a definition",
			`{"$ref":"#/$defs/n","$defs":{"n":{"title":"N","type":"array","items":{"$ref":"#/$defs/n"}}}}`,
			`{"title":"N","type":"array","items":{"title":"N"}}`,
		},
		{
			"recursion under oneOf", `{"oneOf":[{"type":"string"},{"type":"array","items":{"$ref":"#"}}]}`,
			`{"anyOf":[{"type":"string"},{"type":"array","items":{}}]}`,
		},
		{
			"recursion under not", `{"type":"object","not":{"required":["a"],"properties":{"a":{"$ref":"#"}}}}`,
			`{"type":"object"}`,
		},
		{
			"recursion under if", `{"if":{"properties":{"a":{"$ref":"#"}}},"then":false,"minProperties":1}`,
			`{"minProperties":1}`,
		},
		{
			"recursion beside unevaluatedProperties",
			`{"properties":{"a":{"$ref":"#","unevaluatedProperties":false}},"unevaluatedProperties":false}`,
			`{"properties":{"a":{}}}`,
		},
		{
			"recursion under contains", `{"contains":{"items":{"$ref":"#"}},"maxContains":1}`,
			`{"contains":{"items":{}}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := string(inlined(t, test.schema)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestInliningIsBounded(t *testing.T) {
	var wide []string
	for i := range 40 {
		wide = append(
			wide, fmt.Sprintf(`"d%d":{"properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}}`,
				i, i+1, i+1))
	}
	deep := make([]string, 70)
	for i := range deep {
		deep[i] = fmt.Sprintf(`"d%d":{"items":{"$ref":"#/$defs/d%d"}}`, i, i+1)
	}
	for name, text := range map[string]string{
		"large": `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(wide, ",") + `,"d40":{"type":"string"}}}`,
		"deep":  `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(deep, ",") + `,"d70":{"type":"string"}}}`,
	} {
		if got, ok := compile(t, text).Inline(maxInlined); ok {
			t.Errorf("%s: got %d bytes, want none", name, len(got))
		}
	}
}

// checkInlined compares the verdicts on values of a schema and of what it becomes. It
// tells whether both compile and there was something to inline.
func checkInlined(t *testing.T, text string, values []string) bool {
	t.Helper()
	raw := compact(t, []byte(text))
	if _, err := schema.Compile(raw); err != nil {
		return false
	}
	fresh := inlined(t, text)
	if string(fresh) == string(raw) {
		return false
	}
	if err := strictjson.Check(fresh); err != nil {
		t.Fatal(err)
	}
	if leadsBack(raw) {
		return checkAcceptsMore(t, raw, fresh, values)
	}
	for _, value := range values {
		_, want, err := schema.Verdicts(raw, mcp.RawJSON(value))
		if err != nil {
			return false
		}
		_, got, err := schema.Verdicts(fresh, mcp.RawJSON(value))
		if err != nil {
			return false // larger than one schema may be
		}
		if got != want {
			t.Errorf("schema %s\nbecame %s\nvalue %s\ngot %v, want %v", raw, fresh, value, got, want)
		}
	}
	return true
}

// leadsBack tells whether a schema may be recursive, judged by where its references can
// lead.
func leadsBack(raw mcp.RawJSON) bool { return schema.IsRecursive(raw) }

func checkAcceptsMore(t *testing.T, raw, fresh mcp.RawJSON, values []string) bool {
	t.Helper()
	for _, value := range values {
		_, before, err := schema.Verdicts(raw, mcp.RawJSON(value))
		if err != nil {
			return false
		}
		_, after, err := schema.Verdicts(fresh, mcp.RawJSON(value))
		if err != nil {
			return false
		}
		if before && !after {
			t.Errorf("schema %s\nbecame %s\nvalue %s\nis not accepted any more", raw, fresh, value)
		}
	}
	return true
}

func TestInlinedSchemasAcceptTheSame(t *testing.T) {
	rounds := 600
	if testing.Short() {
		rounds = 300
	}
	m := generator{Rand: rand.New(rand.NewPCG(20260728, 2))}
	same, more := 0, 0
	for range rounds {
		text := m.document("$ref", "$ref", "$ref")
		values := make([]string, 6)
		for i := range values {
			values[i] = m.value(3)
		}
		if checkInlined(t, text, values) {
			if leadsBack(compact(t, []byte(text))) {
				more++
			} else {
				same++
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d schemas became equivalent ones, %d recursive ones wider ones", same, more)
	if same < rounds/10 || more < rounds/50 {
		t.Errorf("only %d and %d of %d schemas had something to inline", same, more, rounds)
	}
}

// TestLongChainsOfReferencesAreInlinedSoon holds for a chain that ends at a schema with
// many keywords, each of which goes through the whole chain.
func TestLongChainsOfReferencesAreInlinedSoon(t *testing.T) {
	const links, keywords = 20, 3_000
	text := `{"$ref":"#/$defs/d0","$defs":{` + fmt.Sprintf(`"d%d":{%s},`, links, numbered(`"k%":0`, keywords))
	for i := range links {
		text += fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
	}
	raw := mcp.RawJSON(strings.TrimSuffix(text, ",") + "}}")
	s := compile(t, string(raw))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fresh, ok := s.Inline(maxInlined)
	runtime.ReadMemStats(&after)
	if o, _ := mcp.ObjectOf(fresh); !ok || o.Len() != keywords {
		t.Fatalf("got %.100s, %v", fresh, ok)
	}
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 200<<20 {
		t.Errorf("it took %d bytes of memory, want a few hundred KB for each link", spent)
	}
}
