package schema_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// TestWhatCannotBeCheckedRefusesNothing: a pattern that RE2 cannot read is not enforced,
// nor is what hangs on it, and all else is. Values in takes are accepted, those in
// refuses are not.
func TestWhatCannotBeCheckedRefusesNothing(t *testing.T) {
	const bad = `{"type":"string","pattern":"^(?!x)"}`
	for _, test := range []struct {
		name, schema   string
		gaps           []string // where, each
		takes, refuses []string
	}{
		{
			"pattern", `{"properties":{"a":{"type":"string","pattern":"^(?!x)","maxLength":3}},"required":["a"]}`,
			[]string{"#/properties/a/pattern"},
			[]string{`{"a":"xyz"}`},
			[]string{`{"a":1}`, `{"a":"long"}`, `{}`},
		},
		{
			"pattern beside one that can be read", `{"allOf":[{"pattern":"(?=a)"},{"pattern":"^a"}]}`,
			[]string{"#/allOf/0/pattern"},
			[]string{`"a"`},
			[]string{`"b"`},
		},
		{
			"not", `{"type":["string","null"],"not":` + bad + `}`,
			[]string{"#/not", "#/not/pattern"},
			[]string{`"x"`, `"a"`, `null`},
			[]string{`1`},
		},
		{
			"not without it", `{"not":{"const":1},"properties":{"a":` + bad + `}}`,
			[]string{"#/properties/a/pattern"},
			[]string{`{"a":"x"}`, `2`},
			[]string{`1`, `{"a":1}`},
		},
		{
			"if", `{"if":{"properties":{"a":` + bad +
				`}},"then":{"required":["b"]},"else":{"required":["c"]},"required":["a"]}`,
			[]string{"#/if", "#/then", "#/else", "#/if/properties/a/pattern"},
			[]string{`{"a":"x"}`, `{"a":1}`},
			[]string{`{}`},
		},
		{
			"then", `{"if":{"required":["a"]},"then":{"properties":{"a":` + bad +
				`}},"else":{"required":["c"]}}`,
			[]string{"#/then/properties/a/pattern"},
			[]string{`{"a":"x"}`, `{"c":1}`},
			[]string{`{"a":1}`, `{}`},
		},
		{
			"oneOf", `{"oneOf":[` + bad + `,{"type":"string","maxLength":1},{"type":"null"}]}`,
			[]string{"#/oneOf", "#/oneOf/0/pattern"},
			[]string{`"x"`, `"long"`, `null`},
			[]string{`1`},
		},
		{
			"oneOf beside anyOf", `{"oneOf":[` + bad +
				`,{"type":"null"}],"anyOf":[{"minLength":2},{"type":"integer"}]}`,
			[]string{"#/oneOf", "#/oneOf/0/pattern"},
			[]string{`"xx"`, `1`},
			[]string{`"x"`},
		},
		{
			"anyOf", `{"anyOf":[` + bad + `,{"type":"null"}]}`,
			[]string{"#/anyOf/0/pattern"},
			[]string{`"x"`, `null`},
			[]string{`1`},
		},
		{
			"contains", `{"contains":` + bad + `,"minContains":2,"maxContains":2}`,
			[]string{"#/maxContains", "#/contains/pattern"},
			[]string{`["a","b"]`, `["a","b","x"]`},
			[]string{`["a"]`, `[1,2]`},
		},
		{
			"patternProperties", `{"properties":{"a":{"type":"integer"}},"patternProperties":{"(?=x)":{"type":"integer"},"^y":{"type":"integer"}},"additionalProperties":false}`,
			[]string{"#/patternProperties/(?=x)", "#/additionalProperties"},
			[]string{`{"a":1,"b":2,"x":"s"}`},
			[]string{`{"a":"s"}`, `{"y":"s"}`},
		},
		{
			"patternProperties in allOf",
			`{"allOf":[{"patternProperties":{"(?=x)":true}}],"properties":{"a":{"type":"integer"}},"unevaluatedProperties":false}`,
			[]string{"#/unevaluatedProperties", "#/allOf/0/patternProperties/(?=x)"},
			[]string{`{"b":2}`},
			[]string{`{"a":"s"}`},
		},
		{
			"if before unevaluatedProperties",
			`{"if":{"propertyNames":{"pattern":"(?=x)"}},"then":{"properties":{"a":true}},"unevaluatedProperties":false}`,
			[]string{"#/if", "#/then", "#/unevaluatedProperties", "#/if/propertyNames/pattern"},
			[]string{`{"a":1}`, `{"b":1}`},
			nil,
		},
		{
			"unevaluatedProperties beside a gap", `{"properties":{"a":` + bad +
				`},"unevaluatedProperties":false}`,
			[]string{"#/properties/a/pattern"},
			[]string{`{"a":"x"}`},
			[]string{`{"b":1}`},
		},
		{
			"reference into what is taken out",
			`{"properties":{"a":{"not":{"type":"string","pattern":"(?=x)"}},"b":{"$ref":"#/properties/a/not"}}}`,
			[]string{"#/properties/a/not", "#/properties/a/not/pattern"},
			[]string{`{"a":"x","b":"x"}`},
			[]string{`{"b":1}`},
		},
		{
			"through a reference", `{"not":{"$ref":"#/$defs/x"},"minProperties":1,"$defs":{"x":{"properties":{"a":` + bad + `}}}}`,
			[]string{"#/not", "#/$defs/x/properties/a/pattern"},
			[]string{`{"a":"y"}`, `{"a":1}`},
			[]string{`{}`},
		},
		{
			"through a recursion", `{"properties":{"next":{"$ref":"#"},"a":` + bad +
				`},"oneOf":[{"required":["a"]},{"required":["next"]}]}`,
			[]string{"#/properties/a/pattern"},
			[]string{`{"next":{"a":"x"}}`},
			[]string{`{"next":{"a":1}}`, `{"a":"x","next":{"a":"x"}}`},
		},
		{
			"in a definition that nothing refers to", `{"type":"null","$defs":{"x":` + bad + `}}`, nil,
			[]string{`null`},
			[]string{`1`},
		},
		{
			"beside a reference of draft-07",
			`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/definitions/x","pattern":"(?=x)","definitions":{"x":{"type":"string"}}}`, nil,
			[]string{`"y"`},
			[]string{`1`},
		},
		{
			"$recursiveRef without its dialect",
			`{"properties":{"a":{"$recursiveRef":"#","type":"object"}},"required":["a"]}`,
			[]string{"#/properties/a/$recursiveRef"},
			[]string{`{"a":{}}`},
			[]string{`{"a":1}`},
		},
		{
			"$recursiveRef", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"a":{"$recursiveRef":"#"}},"maxProperties":1}`,
			nil,
			[]string{`{"a":{"a":{}}}`},
			[]string{`{"a":{"b":1,"c":2}}`},
		},
		{
			"$dynamicRef", `{"$dynamicAnchor":"x","properties":{"a":{"$dynamicRef":"#x","required":["a"]}},"maxProperties":1}`,
			nil,
			[]string{`{"a":{"a":{"a":{"a":1}}}}`},
			[]string{`{"a":{}}`, `{"a":{"a":1,"b":2}}`},
		},
		{
			"$dynamicRef to one of several",
			`{"$dynamicRef":"#x","$defs":{"a":{"$dynamicAnchor":"x","type":"string"},"b":{"$dynamicAnchor":"x"}},"maxItems":1}`,
			[]string{"#/$dynamicRef"},
			[]string{`1`, `[1]`},
			[]string{`[1,2]`},
		},
		{
			"contains of 2019-09 in one of several forms",
			`{"$schema":"https://json-schema.org/draft/2019-09/schema","oneOf":[{"contains":{"const":1},"unevaluatedItems":false},{"minItems":1}]}`,
			[]string{"#/oneOf", "#/oneOf/0/unevaluatedItems"},
			[]string{`[1]`, `[2]`},
			[]string{`[]`},
		},
		{
			"contains of 2019-09", `{"$schema":"https://json-schema.org/draft/2019-09/schema","contains":{"const":1},"unevaluatedItems":false}`,
			[]string{"#/unevaluatedItems"},
			[]string{`[1]`, `[1,2]`},
			[]string{`[2]`},
		},
		{
			"bounds of draft-04", `{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true,"maximum":3,"exclusiveMaximum":false,"const":9}`,
			nil,
			[]string{`2`, `3`},
			[]string{`1`, `4`},
		},
		{
			"too long", `{"type":"string","pattern":"` + strings.Repeat("a", 1025) + `"}`,
			[]string{"#/pattern"},
			[]string{`"b"`},
			[]string{`1`},
		},
		{
			"too large a program", `{"type":"string","pattern":"` + strings.Repeat("a{1000}", 10) + `"}`,
			[]string{"#/pattern"},
			[]string{`"b"`},
			[]string{`1`},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := schema.Compile(mcp.RawJSON(test.schema))
			if err != nil {
				t.Fatal(err)
			}
			var places []string
			for _, told := range s.Unenforced() {
				place, _, _ := strings.Cut(strings.TrimPrefix(told, `at "`), `": `)
				places = append(places, place)
			}
			if !slices.Equal(places, test.gaps) {
				t.Errorf("not enforced: got %q, want %q", s.Unenforced(), test.gaps)
			}
			for _, value := range test.takes {
				if err := s.CheckWithin(mcp.RawJSON(value), "value", nil); err != nil {
					t.Errorf("%s: %v", value, err)
				}
			}
			for _, value := range test.refuses {
				if s.CheckWithin(mcp.RawJSON(value), "value", nil) == nil {
					t.Errorf("%s is accepted", value)
				}
			}
		})
	}
}

// TestMembersOfWhatIsNotEnforcedAreDeclared: two names that differ only in case are no
// twins where the schema declares both, also in a part that is not enforced.
func TestMembersOfWhatIsNotEnforcedAreDeclared(t *testing.T) {
	for _, text := range []string{
		`{"if":{"pattern":"(?=x)"},"then":{"properties":{"id":{},"ID":{}}}}`,
		`{"patternProperties":{"(?=x)":{"properties":{"id":{},"ID":{}}}}}`,
	} {
		s := compile(t, text)
		value := `{"id":1,"ID":2}`
		if strings.Contains(text, "Properties") {
			value = `{"any":` + value + `}`
		}
		if err := s.CheckUnambiguousWithin(mcp.RawJSON(value), "arguments", nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	s := compile(t, `{"if":{"pattern":"(?=x)"},"then":{"properties":{"id":{}}}}`)
	if s.CheckUnambiguousWithin(mcp.RawJSON(`{"id":1,"ID":2}`), "arguments", nil) == nil {
		t.Error("twins of which one is declared are accepted")
	}
}

func TestFewGapsAreTold(t *testing.T) {
	s := compile(t, `{"properties":{`+numbered(`"p%":{"pattern":"(?=x)"}`, 50)+`}}`)
	told := s.Unenforced()
	if len(told) != 11 || told[10] != "and 40 more" {
		t.Errorf("got %q", told)
	}
	for _, text := range told {
		if len(text) > 400 {
			t.Errorf("%d bytes: %s", len(text), text)
		}
	}
}

// hanging makes a random schema in which keywords hang on patterns: not, if, oneOf,
// contains, patternProperties and the two that look at what is evaluated.
func (m generator) hanging(depth int) string {
	if depth == 0 {
		return m.one("true", "false", `{"type":"string"}`, `{"type":["integer","null"]}`, `{"type":"object"}`,
			`{"minLength":2}`, `{"required":["a"]}`)
	}
	pattern := m.one(`"^a"`, `"b$"`, `"^.$"`)
	below := func() string { return m.hanging(depth - 1) }
	return m.one(
		`{"pattern":`+pattern+`}`, `{"pattern":`+pattern+`}`,
		`{"properties":{"a":`+below()+`,"b":`+below()+`}}`,
		`{"items":`+below()+`}`,
		`{"$ref":"#/$defs/x"}`,
		`{"allOf":[`+below()+`,`+below()+`]}`,
		`{"not":`+below()+`}`,
		`{"if":`+below()+`,"then":`+below()+`,"else":`+below()+`}`,
		`{"oneOf":[`+below()+`,`+below()+`]}`,
		`{"oneOf":[`+below()+`,`+below()+`],"anyOf":[`+below()+`,`+below()+`]}`,
		`{"contains":`+below()+`,"minContains":`+m.one("0", "1")+`,"maxContains":1}`,
		`{"patternProperties":{`+pattern+`:`+below()+`},"additionalProperties":`+below()+`}`,
		`{"allOf":[{"properties":{"b":true},"patternProperties":{`+pattern+`:`+below()+
			`}}],"unevaluatedProperties":`+below()+`}`,
		`{"if":`+below()+`,"then":{"prefixItems":[true],"properties":{"a":true}},"unevaluatedItems":`+below()+
			`,"unevaluatedProperties":`+below()+`}`,
		`{"oneOf":[`+below()+`,{"items":true},{"properties":{"a":true}}],"unevaluatedItems":`+below()+
			`,"unevaluatedProperties":`+below()+`}`,
	)
}

// TestWeakenedSchemasAcceptWhatTheOriginalAccepts makes patterns of random schemas
// unreadable for RE2, in a way that changes their meaning for nobody who can read them:
// (?=) is always true. What the original accepts, as the oracle says, must then be
// accepted still, by both judges.
func TestWeakenedSchemasAcceptWhatTheOriginalAccepts(t *testing.T) {
	rounds := 1_200
	if testing.Short() {
		rounds = 500
	}
	m := generator{Rand: rand.New(rand.NewPCG(20260728, 4))}
	weakened, accepted, refused := 0, 0, 0
	for range rounds {
		text := `{"allOf":[` + m.hanging(3) + `],"$defs":{"x":` + m.hanging(1) + `}}`
		unreadable := strings.ReplaceAll(text, m.one(`"^a"`, `"b$"`, `"^.$"`), `"(?=)"`)
		original := strings.ReplaceAll(unreadable, `"(?=)"`, m.one(`"^a"`, `"b$"`, `"^.$"`, `"[1a]"`))
		raw := compact(t, []byte(unreadable))
		s, err := schema.Compile(raw)
		other, wrong := oracle(compact(t, []byte(original)))
		if err != nil || wrong != nil || len(s.Unenforced()) == 0 {
			continue
		}
		weakened++
		for range 12 {
			data := m.value(2)
			value, err := decodeForOracle([]byte(data))
			if err != nil {
				t.Fatal(err)
			}
			fast, library, err := s.Verdicts(mcp.RawJSON(data))
			if err != nil {
				t.Fatal(err)
			}
			valid := other.Validate(value) == nil
			if valid && !library || fast && !library {
				t.Fatalf("schema %s\nnot enforced %q\nvalue %s\ngot fast path %v, library %v; want %v",
					unreadable, s.Unenforced(), data, fast, library, valid)
			}
			if valid {
				accepted++
			} else if !library {
				refused++
			}
		}
	}
	t.Logf("%d weakened schemas; %d values accepted, %d refused still", weakened, accepted, refused)
	if weakened < rounds/4 || accepted < rounds || refused < rounds/2 {
		t.Errorf("too few: %d weakened schemas, %d values accepted, %d refused", weakened, accepted, refused)
	}
}
