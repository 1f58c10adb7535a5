package schema_test

import (
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// compile returns a schema that must be accepted.
func compile(t testing.TB, text string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(compact(t, []byte(text)))
	if err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	return s
}

// complaint returns what is said of arguments, "" when they are valid.
func complaint(t *testing.T, text, arguments string) string {
	t.Helper()
	if err := compile(t, text).CheckUnambiguousWithin(mcp.RawJSON(arguments), "arguments", nil); err != nil {
		return err.Error()
	}
	return ""
}

// object returns a schema with one optional property a.
func object(property string) string { return `{"type":"object","properties":{"a":` + property + `}}` }

func TestErrorsSayWhereWhatAndWhatIsAllowed(t *testing.T) {
	for _, test := range []struct{ name, schema, arguments, want string }{
		{"valid", smallSchema, smallData, ""},
		{"required", smallSchema, `{}`, "city: is required"},
		{"required and null", smallSchema, `{"city":null}`, "city: must be a string, got null"},
		{
			"two problems", smallSchema, `{"units":"kelvin"}`,
			`city: is required; units: must be one of "metric", "imperial"`,
		},
		{"surplus", smallSchema, `{"city":"x","zip":1}`, "zip: is not allowed here; allowed: city, units"},
		{
			"surplus where nothing is known", `{"type":"object","additionalProperties":false}`, `{"zip":1}`,
			"zip: is not allowed here",
		},
		{
			"a property that must not be there", `{"properties":{"a":false,"b":{},"c":false}}`, `{"a":1}`,
			"a: is not allowed here; allowed: b",
		},
		{"type", object(`{"type":"integer"}`), `{"a":"secret"}`, "a: must be an integer, got a string"},
		{
			"types", object(`{"type":["integer","null"]}`), `{"a":"secret"}`,
			"a: must be null or an integer, got a string",
		},
		{"fraction", object(`{"type":"integer"}`), `{"a":1.5}`, "a: must be an integer, got a number"},
		{"number", object(`{"type":"number"}`), `{"a":{}}`, "a: must be a number, got an object"},
		{
			"patterns", `{"patternProperties":{"^a":{"type":["integer","null"]},"b$":{"type":"string"}}}`,
			`{"ab":1,"bb":2}`,
			"ab: does not have the form of members with such a name; bb: must be a string, got an integer",
		},
		{
			"name that reads like a pattern",
			`{"patternProperties":{"b$":{"type":"integer"},"[$]":{"type":"string"}}}`, `{"b$":1}`,
			"b$: must be a string, got an integer",
		},
		{"const", object(`{"const":"x"}`), `{"a":"secret"}`, `a: must be "x"`},
		{
			"const of each branch", object(`{"oneOf":[{"const":"x","title":"X"},{"const":1}]}`), `{"a":"secret"}`,
			`a: must be one of "x", 1`,
		},
		{
			"const of several branches", object(`{"oneOf":[{"const":"x"},{"const":"x"}]}`), `{"a":"x"}`,
			"a: matches several of the 2 allowed forms, and must match exactly one",
		},
		{"minimum", object(`{"minimum":1.50}`), `{"a":1}`, "a: must be at least 1.50"},
		{"maximum", object(`{"maximum":1}`), `{"a":2}`, "a: must be at most 1"},
		{"exclusive", object(`{"exclusiveMinimum":1}`), `{"a":1}`, "a: must be above 1"},
		{"multipleOf", object(`{"multipleOf":5}`), `{"a":7}`, "a: must be a multiple of 5"},
		{"minLength", object(`{"minLength":3}`), `{"a":"é!"}`, "a: must have at least 3 characters"},
		{
			"pattern", object(`{"pattern":"^\\s*[a-z]+$"}`), `{"a":"SECRET"}`,
			`a: must match the pattern ^\s*[a-z]+$`,
		},
		{
			"items", object(`{"items":{"type":"string"},"maxItems":1}`), `{"a":["x",1]}`,
			"a: must have at most 1 items; a/1: must be a string, got an integer",
		},
		{
			"tuple", object(`{"prefixItems":[{"type":"string"}],"items":false}`), `{"a":[1,2]}`,
			"a/0: must be a string, got an integer; a/1: is one item too many",
		},
		{
			"uniqueItems", object(`{"uniqueItems":true}`), `{"a":[1,1.0]}`,
			"a: must not hold the same item twice",
		},
		{
			"contains", object(`{"contains":{"type":"string"}}`), `{"a":[1]}`,
			"a: has too few items of the form it must contain",
		},
		{
			"nested", object(`{"type":"object","properties":{"b":{"items":{"required":["c"]}}}}`),
			`{"a":{"b":[{}]}}`, "a/b/0/c: is required",
		},
		{"reference", `{"type":"object","properties":{"a":{"$ref":"#/$defs/d"}},"$defs":{"d":{"properties":{"b":{"type":"string"}}}}}`, `{"a":{"b":1}}`, "a/b: must be a string, got an integer"},
		{"not", object(`{"not":{"type":"string"}}`), `{"a":"secret"}`, "a: has a form that is excluded"},
		{
			"nullable", object(`{"anyOf":[{"type":"string"},{"type":"null"}]}`), `{"a":1}`,
			"a: must be null or a string, got an integer",
		},
		{
			"nullable with limit", object(`{"anyOf":[{"type":"string","maxLength":2},{"type":"null"}]}`),
			`{"a":"secret"}`, "a: must have at most 2 characters",
		},
		{"oneOf by tag", object(
			`{"oneOf":[{"properties":{"t":{"const":"x"},"n":{"type":"integer"}},"required":["t"]},{"properties":{"t":{"const":"y"},"m":{"type":"integer"}},"required":["t"]}]}`), `{"a":{"t":"y","m":"1"}}`, "a: matches none of the 2 allowed forms; what the nearest one lacks follows; a/m: must be an integer, got a string"},
		{
			"oneOf with several", object(`{"oneOf":[{"type":"integer"},{"minimum":1}]}`), `{"a":1}`,
			"a: matches several of the 2 allowed forms, and must match exactly one",
		},
		{
			"if then", `{"type":"object","if":{"required":["a"]},"then":{"required":["b"]}}`, `{"a":1}`,
			"b: is required",
		},
		{
			"if else", `{"type":"object","if":{"required":["a"]},"else":{"required":["b"]}}`, `{}`,
			"b: is required",
		},
		{
			"dependentRequired", `{"type":"object","dependentRequired":{"a":["b"]}}`, `{"a":1}`,
			"b: is required when a is given",
		},
		{
			"dependencies of draft-07",
			`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","dependencies":{"a":["b"],"c":{"required":["d"]}}}`, `{"a":1,"c":1}`, "b: is required when a is given; d: is required",
		},
		{
			"propertyNames", `{"type":"object","propertyNames":{"maxLength":2}}`, `{"abc":1}`,
			"abc: is a name that is not allowed here",
		},
		{
			"patternProperties", `{"type":"object","patternProperties":{"^n":{"type":"integer"}}}`, `{"n1":"x"}`,
			"n1: must be an integer, got a string",
		},
		{
			"unevaluatedProperties", `{"type":"object","properties":{"a":{}},"unevaluatedProperties":false}`,
			`{"b":"x"}`, "b: is not allowed here; allowed: a",
		},
		{
			"unevaluatedItems", object(`{"prefixItems":[true],"unevaluatedItems":{"type":"string"}}`),
			`{"a":[1,2]}`, "a/1: does not have the form of further items",
		},
		{
			"unevaluatedItems false", object(`{"prefixItems":[true],"unevaluatedItems":false}`), `{"a":[1,2]}`,
			"a: has too many items",
		},
		{
			"minProperties", `{"type":"object","minProperties":1}`, `{}`,
			"arguments: must have at least 1 members",
		},
		{"no object", `{"type":"object"}`, `[1]`, "arguments: must be an object, got an array"},
		{"null", `{"type":"object"}`, `null`, "arguments: must be an object, got null"},
		{
			"odd name", `{"type":"object","additionalProperties":false}`, `{"a\n/\u202eb":1}`,
			`"a\n/\u202eb": is not allowed here`,
		},
		{
			"many", `{"type":"object","required":["a","b","c","d","e","f","g"]}`, `{}`,
			"a: is required; b: is required; c: is required; d: is required; e: is required; and 2 more",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := complaint(t, test.schema, test.arguments)
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if strings.Contains(strings.ToLower(got), "secret") {
				t.Errorf("the text holds the value: %s", got)
			}
		})
	}
}

// TestReferenceAndElseAreToldApart among many other faults: the library names neither.
func TestReferenceAndElseAreToldApart(t *testing.T) {
	text := `{"$ref":"#/$defs/a","if":false,"else":{"maxProperties":3},"properties":{` +
		numbered(`"p%":{"type":"string"}`, 40) + `},"$defs":{"a":{"minProperties":99}}}`
	for range 20 {
		got := complaint(t, text, `{`+numbered(`"p%":1`, 40)+`}`)
		if !strings.HasPrefix(got, "arguments: must have at least 99 members; arguments: must have at most 3 members; ") {
			t.Fatal(got)
		}
	}
}

func TestErrorsStaySmall(t *testing.T) {
	long := strings.Repeat("long name ", 200)
	names := numbered(`"`+long+`%"`, 20)
	enum := numbered(`"`+strings.Repeat("v", 300)+`%"`, 60)
	for name, text := range map[string]string{
		"required": `{"type":"object","required":[` + names + `]}`,
		"enum":     `{"type":"object","properties":{"a":{"enum":[` + enum + `]}}}`,
		"pattern":  `{"type":"object","properties":{"a":{"pattern":"` + strings.Repeat("é", 1000) + `"}}}`,
	} {
		got := complaint(t, text, `{"a":"x"}`)
		if got == "" || len(got) > 1024 {
			t.Errorf("%s: got a text of %d bytes", name, len(got))
		}
	}
}

// TestExplainingManyBranchesTakesLittleMemory: each branch that failed is looked up among
// all subschemas of its schema, which must not be copied for that.
func TestExplainingManyBranchesTakesLittleMemory(t *testing.T) {
	s := compile(t, `{"properties":{`+numbered(`"p%":{}`, 900)+`},"anyOf":[`+
		numbered(`{"required":["x%"]}`, 500)+`]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := s.CheckWithin(mcp.RawJSON(`{"a":1}`), "value", nil)
	if err == nil || !strings.Contains(err.Error(), "matches none of the 500 allowed forms") {
		t.Errorf("got %v, want that no branch fits", err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 8<<20 {
		t.Errorf("one check has allocated %d KiB", got>>10)
	}
}

// TestReadingManyReferencesToALargePartTakesLittleMemory: what each of them may meet is
// counted in one map. A map of each, which grew and grew, took most of the time of
// reading such a schema.
func TestReadingManyReferencesToALargePartTakesLittleMemory(t *testing.T) {
	text := `{"$defs":{"b":{"properties":{` + numbered(`"a%":{}`, 990) + `}}},"properties":{` +
		numbered(`"p%":{"$ref":"#/$defs/b"}`, 990) + `}}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	compile(t, text)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
		t.Errorf("to read the schema has allocated %d KiB", got>>10)
	}
}

// TestOneOfOfManyBranchesDoesNotSaySeveralMatch: of so many branches not all faults are
// collected, and those that are not were no match for that.
func TestOneOfOfManyBranchesDoesNotSaySeveralMatch(t *testing.T) {
	s := compile(t, `{"oneOf":[`+numbered(`{"required":["x%"]}`, 500)+`]}`)
	err := s.CheckWithin(mcp.RawJSON(`{"a":1}`), "value", nil)
	if err == nil || !strings.Contains(err.Error(), "does not match exactly one of the 500 allowed forms") {
		t.Errorf("got %v, want that not exactly one branch fits", err)
	}
}

// TestExplainingManyItemsTakesLittleMemory: the branches of each item that failed are
// counted without a copy of all subschemas.
func TestExplainingManyItemsTakesLittleMemory(t *testing.T) {
	s := compile(t, `{"items":{"anyOf":[{"type":"string"}],"properties":{`+numbered(`"p%":{}`, 1500)+`}}}`)
	value := mcp.RawJSON(`[` + strings.Repeat("0,", 98) + `0]`)
	checkIn(t, s, value, "must be a string", 4<<20)
}

// checkIn checks a value that does not fit, which may allocate no more than most bytes.
func checkIn(t *testing.T, s *schema.Schema, value mcp.RawJSON, want string, most uint64) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := s.CheckWithin(value, "value", nil)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want something with %q", err, want)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > most {
		t.Errorf("one check has allocated %d KiB", got>>10)
	}
}

// TestMissingMembersTakeLittleMemory: what required properties have to be is not asked of
// those that are missing.
func TestMissingMembersTakeLittleMemory(t *testing.T) {
	s := compile(t, `{"items":{"required":[`+numbered(`"p%"`, 40)+`],"properties":{`+
		numbered(`"p%":{"anyOf":[`+repeated(`{"type":"string"}`, 20)+`]}`, 40)+`}}}`)
	value := mcp.RawJSON(`[` + repeated("{}", 100) + `]`)
	checkIn(t, s, value, "0/p0: is required", 8<<20)
}

func TestNamesThatFoldAlikeAreRefused(t *testing.T) {
	declared := `{"type":"object","properties":{"id":{},"ID":{},"in":{"anyOf":[{"properties":{"x":{},"X":{}}}]},"free":{}},"patternProperties":{"^p":{"properties":{"k":{},"K":{}}}}}`
	for _, test := range []struct {
		name, arguments string
		refused         bool
	}{
		{"both declared", `{"id":1,"ID":2}`, false},
		{"one declared", `{"id":1,"Id":2}`, true},
		{"none declared", `{"q":1,"Q":2}`, true},
		{"long s", `{"s":1,"ſ":2}`, true},
		{"Kelvin sign", `{"k":1,"\u212a":2}`, true},
		{"full width", `{"a":1,"ａ":2}`, true},
		{"trailing NUL", `{"a":1,"a\u0000":2}`, true},
		{"nested, declared there", `{"in":{"x":1,"X":2}}`, false},
		{"nested, declared elsewhere", `{"free":{"id":1,"ID":2}}`, true},
		{"nested by pattern, declared there", `{"p1":{"k":1,"K":2}}`, false},
		{"in a list", `{"free":[1,{"a":1,"A":2}]}`, true},
		{"many names", `{"free":{` + numbered(`"N%":%`, 40) + `,"n7":1}}`, true},
		{"capitals that differ", `{"free":{"aB":1,"aC":2,"Ba":3}}`, false},
		{"as values", `{"free":["a","A"]}`, false},
		{"in different objects", `{"free":[{"a":1},{"A":1}]}`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := complaint(t, declared, test.arguments)
			if (got != "") != test.refused {
				t.Errorf("got %q, want refused %v", got, test.refused)
			}
			if test.refused && !strings.Contains(got, "differ only in form") {
				t.Errorf("got %q", got)
			}
			if err := compile(t, declared).CheckWithin(mcp.RawJSON(test.arguments), "value", nil); err != nil {
				t.Errorf("got %v where names may be alike", err)
			}
		})
	}
}

func TestT36OneSchemaIsUsedAtOnce(t *testing.T) {
	for _, text := range []string{
		`{"type":"object","properties":{"a":{"type":"string","pattern":"^[a-z]+$","not":{"const":"no"}}}}`,
		`{"type":"object","patternProperties":{"^a":{"type":"string","pattern":"^[a-z]+$"}},"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"oneOf":[{"type":"string","maxLength":3},{"type":"integer"}]}}}`,
	} {
		s := compile(t, text)
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for range 100 {
					if err := s.CheckWithin(mcp.RawJSON(`{"a":"yes"}`), "value", nil); err != nil {
						t.Errorf("%s: %v", text, err)
					}
					if s.CheckWithin(mcp.RawJSON(`{"a":"NO!!"}`), "value", nil) == nil {
						t.Errorf("%s: accepted", text)
					}
				}
			})
		}
		group.Wait()
	}
}

// TestASchemaMayNameItselfByItsID: generators write references so. What another address
// or another document is named by leads out of the schema as before.
func TestASchemaMayNameItselfByItsID(t *testing.T) {
	of := func(id, ref string) string {
		return `{"$id":"` + id + `","type":"object","properties":{"a":{"$ref":"` + ref +
			`"}},"$defs":{"x":{"$anchor":"n","type":"string"}}}`
	}
	for _, test := range []struct{ id, ref string }{
		{"https://x.example/a/s.json", "https://x.example/a/s.json#/$defs/x"},
		{"https://x.example/a/s.json#", "https://x.example/a/s.json#n"},
		{"https://x.example/a/s.json", "s.json#/%24defs/x"},
		{"https://x.example/a/s.json", "/a/s.json#/$defs/x"},
		{"https://x.example", "https://x.example#/$defs/x"},
		{"urn:example:s", "urn:example:s#/$defs/x"},
		{"s.json", "s.json#/$defs/x"},
	} {
		text := of(test.id, test.ref)
		if got := complaint(t, text, `{"a":"x"}`); got != "" {
			t.Errorf("%s: a text is refused: %s", text, got)
		}
		if got := complaint(t, text, `{"a":1}`); got != "a: must be a string, got an integer" {
			t.Errorf("%s: got %q for a number", text, got)
		}
		if flat := string(inlined(t, text)); strings.Contains(flat, "$ref") {
			t.Errorf("%s: inlined it is %s", text, flat)
		}
	}
	for _, test := range []struct{ id, ref string }{
		{"https://x.example/a/s.json", "https://x.example/a/t.json#/$defs/x"},
		{"https://x.example/a/s.json", "https://y.example/a/s.json#/$defs/x"},
		{"https://x.example/a/s.json", "http://x.example/a/s.json#/$defs/x"},
		{"https://x.example/a/s.json", "../s.json#/$defs/x"},
		{"https://x.example/a/s.json", "s.json?v=2#/$defs/x"},
		{"urn:example:s", "urn:example:t#/$defs/x"},
		{"https://x.example/a/s.json", "https://x.example/a/s.json#/$defs/y"},
	} {
		text := of(test.id, test.ref)
		if _, err := schema.Compile(mcp.RawJSON(text)); err == nil {
			t.Errorf("%s: is accepted", text)
		}
	}
	if got := complaint(t, `{"$id":"https://x.example/s","properties":{"next":{"$ref":"https://x.example/s"}},`+
		`"additionalProperties":false}`, `{"next":{"next":{},"more":1}}`); got == "" {
		t.Error("a schema that names itself whole does not recur")
	}
}
