package schema_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// hostile is a schema that a careless validator pays for, and what becomes of it here.
type hostile struct {
	name, schema string
	data         string // validated when the schema is accepted
	accepted     bool
	valid        bool   // of data
	says         string // what the refusal of data holds
}

// What is said when data is refused because checking it would cost too much. The estimate
// is of work, not of time.
const (
	tooMany = "too many values to check against this schema"
	tooLong = "too long to check against the patterns"
)

// hang is more than anything here takes on the slowest machine.
const hang = time.Minute

func checkNoHang(t *testing.T, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > hang {
		t.Errorf("took %v", took)
	}
}

func checkRefusal(t *testing.T, err error, valid bool, says string) {
	t.Helper()
	if (err == nil) != valid {
		t.Errorf("got %v, want valid %v", err, valid)
	}
	if err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want that it says %q", err, says)
	}
}

// doubling returns definitions d0 … dn, each meeting the next one twice.
func doubling(n int, keyword string) string {
	var defs []string
	for i := range n {
		defs = append(defs, fmt.Sprintf(`"d%d":{"%s":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i,
			keyword, i+1, i+1))
	}
	defs = append(defs, fmt.Sprintf(`"d%d":{"type":"string"}`, n))
	return `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `}}`
}

// deepDoubling doubles at every level of the data instead of on one value.
func deepDoubling(n int) string {
	var defs []string
	for i := range n {
		branch := fmt.Sprintf(`{"properties":{"a":{"$ref":"#/$defs/d%d"}}}`, i+1)
		defs = append(defs, fmt.Sprintf(`"d%d":{"anyOf":[%s,%s]}`, i, branch, branch))
	}
	defs = append(defs, fmt.Sprintf(`"d%d":{"type":"string"}`, n))
	return `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `}}`
}

func repeated(text string, n int) string {
	return strings.TrimSuffix(strings.Repeat(text+",", n), ",")
}

func numbered(format string, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = strings.ReplaceAll(format, "%", fmt.Sprint(i))
	}
	return strings.Join(parts, ",")
}

func chain(n int) string {
	return `{"$ref":"#/$defs/d0","$defs":{` + numbered(`"d%":{"$ref":"#/$defs/d%x"}`, n) + `}}`
}

func hostileSchemas(remote string) []hostile {
	return []hostile{
		// Size and depth.
		{name: "4900 nested properties", schema: strings.Repeat(`{"properties":{"a":`, 4900) + "true" +
			strings.Repeat("}}", 4900)},
		{name: "33 nested properties", schema: strings.Repeat(`{"properties":{"a":`, 33) + "true" +
			strings.Repeat("}}", 33)},
		{name: "31 nested properties", schema: strings.Repeat(`{"properties":{"a":`, 31) + "true" +
			strings.Repeat("}}", 31), data: `{"a":{"a":1}}`, accepted: true, valid: true},
		{name: "nested items", schema: strings.Repeat(`{"items":`, 65) + "true" + strings.Repeat("}", 65)},
		{name: "nested not", schema: strings.Repeat(`{"not":`, 65) + "true" + strings.Repeat("}", 65)},
		{name: "nested not within depth", schema: strings.Repeat(`{"not":`, 60) + "true" + strings.Repeat("}",
			60), data: "1", accepted: true, valid: true},
		{name: "more than 64 KiB", schema: `{"description":"` + strings.Repeat("x", 64<<10) + `"}`},
		{name: "2001 properties", schema: `{"properties":{` + numbered(`"p%":{}`, 2001) + `}}`},
		{
			name: "1999 properties, 1999 required", schema: `{"properties":{` + numbered(`"p%":{}`, 1999) +
				`},"required":[` + numbered(`"p%"`, 1999) + `]}`, data: `{}`, accepted: true,
			says: "is required",
		},
		{name: "1999 properties on many items", schema: `{"items":{"properties":{` + numbered(`"p%":{}`,
			1990) + `},"required":[` + numbered(`"p%"`, 1990) + `]}}`, data: "[" + repeated("{}", 50_000) +
			"]", accepted: true, says: tooMany},
		{name: "2000 required names on many items", schema: `{"items":{"required":[` + numbered(`"p%"`, 2000) +
			`]}}`, data: "[" + repeated("{}", 5_000) + "]", accepted: true, says: tooMany},
		{
			name: "a name that requires 2000 on many items", schema: `{"items":{"dependentRequired":{"a":[` +
				numbered(`"p%"`, 2000) + `]}}}`, data: "[" + repeated(`{"a":1}`, 5_000) + "]", accepted: true,
			says: tooMany,
		},
		{
			name: "a large value in enum on many items", schema: `{"items":{"enum":["` +
				strings.Repeat("x", 60_000) + `"]}}`, data: "[" + repeated("0", 5_000) + "]", accepted: true,
			says: tooMany,
		},
		{name: "2001 anyOf", schema: `{"anyOf":[` + repeated("{}", 2001) + `]}`},
		// References.
		{name: "remote http", schema: `{"$ref":"` + remote + `/schema"}`},
		{name: "remote in properties", schema: `{"properties":{"a":{"$ref":"` + remote + `/schema"}}}`},
		{name: "remote in unused definition", schema: `{"$defs":{"a":{"$ref":"` + remote + `/schema"}}}`},
		{
			name: "remote by $dynamicRef", schema: `{"$dynamicRef":"` + remote + `/schema"}`, data: `1`,
			accepted: true, valid: true,
		},
		{name: "remote by $id and relative", schema: `{"$id":"` + remote + `/","$ref":"schema"}`},
		{name: "remote metaschema", schema: `{"$schema":"` + remote + `/schema","type":"string"}`},
		{
			name: "remote in $id only", schema: `{"$id":"` + remote + `/schema","type":"string"}`, data: `"x"`,
			accepted: true, valid: true,
		},
		{name: "file", schema: `{"$ref":"file:///etc/passwd"}`},
		{name: "relative", schema: `{"$ref":"other.json"}`},
		{name: "metaschema by reference", schema: `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`},
		{name: "unresolved pointer", schema: `{"$ref":"#/$defs/none"}`},
		{name: "unresolved anchor", schema: `{"$ref":"#none"}`},
		{name: "pointer into an unknown keyword", schema: `{"x":{"type":"string"},"$ref":"#/x"}`},
		{name: "pointer into enum", schema: `{"enum":[{"type":"string"}],"$ref":"#/enum/0"}`},
		{name: "itself", schema: `{"$ref":"#"}`},
		{name: "itself in allOf", schema: `{"allOf":[{"$ref":"#"}]}`},
		{name: "itself in not", schema: `{"not":{"$ref":"#"}}`},
		{name: "itself in if", schema: `{"if":{"$ref":"#"},"then":false}`},
		{name: "itself in dependentSchemas", schema: `{"dependentSchemas":{"a":{"$ref":"#"}}}`},
		{
			name:   "two that need each other",
			schema: `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}}}`,
		},
		{name: "cycle in unused definitions", schema: `{"$defs":{"a":{"$ref":"#/$defs/a"}}}`},
		{name: "1000 references in a row", schema: strings.ReplaceAll(chain(600), `x"}`, `"}`)},
		{name: "doubling anyOf", schema: doubling(22, "anyOf")},
		{name: "doubling allOf", schema: doubling(22, "allOf")},
		{name: "doubling oneOf", schema: doubling(22, "oneOf")},
		{
			name: "doubling allOf within bounds", schema: doubling(6, "allOf"), data: `"x"`, accepted: true,
			valid: true,
		},
		{name: "doubling by level", schema: deepDoubling(30)},
		{
			name:   "doubling by recursion",
			schema: `{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`,
		},
		{
			name:   "doubling by recursion through wild names",
			schema: `{"properties":{"a":{"$ref":"#"}},"patternProperties":{"a":{"$ref":"#"}}}`,
		},
		{
			name:   "doubling by recursion through items",
			schema: `{"items":{"$ref":"#"},"contains":{"$ref":"#"}}`,
		},
		{
			name:   "doubling by recursion beside additionalProperties",
			schema: `{"allOf":[{"properties":{"a":{"$ref":"#"}}}],"additionalProperties":{"$ref":"#"}}`,
		},
		{
			name:   "plain recursion",
			schema: `{"type":"object","properties":{"next":{"$ref":"#"}},"additionalProperties":false}`,
			data:   strings.Repeat(`{"next":`, 60) + "{}" + strings.Repeat("}", 60), accepted: true,
			valid: true,
		},
		{
			name:   "any JSON value by recursion",
			schema: `{"anyOf":[{"type":["string","number","boolean","null"]},{"type":"array","items":{"$ref":"#"}},{"type":"object","additionalProperties":{"$ref":"#"}}]}`, data: `{"a":[1,{"b":null}]}`, accepted: true, valid: true,
		},
		// Identity.
		{name: "nested $id", schema: `{"$defs":{"a":{"$id":"http://x.example/","type":"string"}}}`},
		{name: "same $anchor twice", schema: `{"$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}`},
		{name: "itself by $dynamicRef", schema: `{"$dynamicAnchor":"x","$dynamicRef":"#x"}`},
		{
			name:   "itself by $recursiveRef",
			schema: `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveRef":"#"}`,
		},
		{
			name:   "doubling by $dynamicRef",
			schema: `{"$dynamicAnchor":"x","anyOf":[{"properties":{"a":{"$dynamicRef":"#x"}}},{"properties":{"a":{"$dynamicRef":"#x"}}}]}`,
		},
		{name: "draft-03", schema: `{"$schema":"http://json-schema.org/draft-03/schema#"}`},
		{
			name:   "another dialect below",
			schema: `{"properties":{"a":{"$schema":"http://json-schema.org/draft-07/schema#"}}}`,
		},
		// Keywords.
		{name: "null property", schema: `{"properties":{"a":null}}`},
		{name: "null items", schema: `{"items":null}`},
		{name: "null in allOf", schema: `{"allOf":[null]}`},
		{name: "null not", schema: `{"not":null}`},
		{name: "null properties", schema: `{"properties":null}`},
		{name: "null definition", schema: `{"$defs":{"a":null}}`},
		{name: "empty enum", schema: `{"enum":[]}`},
		{name: "empty allOf", schema: `{"allOf":[]}`},
		{name: "2001 values in enum", schema: `{"enum":[` + repeated("1", 2001) + `]}`},
		{name: "2000 values in enum on many items", schema: `{"items":{"enum":[` + numbered(`"v%"`, 2000) +
			`]}}`, data: "[" + repeated(`"x"`, 100_000) + "]", accepted: true, says: tooMany},
		{name: "unknown type", schema: `{"type":"strnig"}`},
		{name: "empty type list", schema: `{"type":[]}`},
		{name: "required as a boolean", schema: `{"properties":{"a":{"required":true}}}`},
		{name: "legacy tuple in 2020-12", schema: `{"items":[{"type":"string"}]}`},
		{
			name: "capitalised keyword is none", schema: `{"Type":"string","PROPERTIES":null}`, data: "1",
			accepted: true, valid: true,
		},
		{name: "duplicate keyword", schema: `{"type":"string","type":"integer"}`},
		{
			name:   "content keywords assert nothing",
			schema: `{"contentEncoding":"base64","contentMediaType":"application/xml","contentSchema":{"$ref":"http://x.example/"}}`, data: `"%"`, accepted: true, valid: true,
		},
		{name: "a list", schema: `[]`},
		{name: "true", schema: `true`, data: "1", accepted: true, valid: true},
		{name: "false", schema: `false`, data: "1", accepted: true},
		{name: "null", schema: `null`},
		// Numbers.
		{name: "a million digits", schema: `{"multipleOf":1` + strings.Repeat("0", 50_000) + `}`},
		{name: "minimum 1e999999999", schema: `{"minimum":1e999999999}`},
		{name: "multipleOf 1e-999999999", schema: `{"multipleOf":1e-999999999}`},
		{name: "multipleOf 0", schema: `{"multipleOf":0}`},
		{name: "multipleOf -1", schema: `{"multipleOf":-1}`},
		{
			name: "multipleOf 1e-400", schema: `{"multipleOf":1e-400}`, data: "1e400", accepted: true,
			valid: true,
		},
		{name: "maxLength beyond any integer", schema: `{"maxLength":1e300}`},
		{
			name: "maxLength 2^53", schema: `{"maxLength":9007199254740992}`, data: `"x"`, accepted: true,
			valid: true,
		},
		{name: "maxLength 2^53+1", schema: `{"maxLength":9007199254740993}`},
		{name: "minLength -1", schema: `{"minLength":-1}`},
		{name: "minItems 0.5", schema: `{"minItems":0.5}`},
		{name: "maxLength 2.0", schema: `{"maxLength":2.0}`, data: `"xx"`, accepted: true, valid: true},
		{
			name: "unique items of large numbers", schema: `{"uniqueItems":true}`,
			data: "[" + numbered("1e399,%e390", 1000) + "]", accepted: true, says: "the same item twice",
		},
		{
			name: "many unique items of large numbers", schema: `{"uniqueItems":true}`,
			data: "[" + numbered("1e399,%e390", 20_000) + "]", accepted: true, says: tooMany,
		},
		{
			name: "unique items at every level", schema: `{"uniqueItems":true,"items":{"$ref":"#"}}`,
			data:     strings.Repeat("[0,", 60) + "[" + numbered("%", 10_000) + "]" + strings.Repeat("]", 60),
			accepted: true, says: tooMany,
		},
		{
			name:     "unique items beside many values",
			schema:   `{"properties":{"tags":{"uniqueItems":true},"rows":{"items":{"items":{"type":"number"}}}}}`,
			data:     `{"tags":[1,2],"rows":[` + repeated("["+numbered("%", 1500)+"]", 40) + `]}`,
			accepted: true, valid: true,
		},
		{
			name: "unique items at two levels", schema: `{"uniqueItems":true,"items":{"uniqueItems":true}}`,
			data: "[[" + numbered("%", 10_000) + "],0]", accepted: true, valid: true,
		},
		{
			name: "multipleOf of numbers of 400 digits", schema: `{"items":{"multipleOf":0.01}}`,
			data: "[" + repeated("1e-400", 20_000) + "]", accepted: true, says: tooMany,
		},
		{
			name: "multipleOf of ordinary numbers", schema: `{"items":{"multipleOf":0.01}}`,
			data: "[" + repeated("12.34", 20_000) + "]", accepted: true, valid: true,
		},
		{
			name: "minimum of numbers of 400 digits", schema: `{"items":{"not":{"minimum":1}}}`,
			data: "[" + repeated("1e-400", 10_000) + "]", accepted: true, says: tooMany,
		},
		{name: "enum of numbers of 400 digits", schema: `{"items":{"enum":[` + numbered("%e-399", 1000) +
			`]}}`, data: "[" + repeated("1.5", 50) + "]", accepted: true, says: tooMany},
		// Data.
		{
			name: "2 MiB string", schema: `{"type":"string"}`, data: `"` + strings.Repeat("x", 2<<20) + `"`,
			accepted: true, says: "longer than 1 MiB",
		},
		{
			name: "1 MiB string in many forms", schema: `{"oneOf":[` + numbered(`{"const":"%"}`, 500) + `]}`,
			data: `"` + strings.Repeat("x", 1<<20-10) + `"`, accepted: true, says: tooMany,
		},
		{
			name: "many values that fail", schema: `{"items":{"type":"integer"}}`,
			data: "[" + repeated(`"x"`, 190_000) + "]", accepted: true, says: tooMany,
		},
		{
			name: "many values that pass", schema: `{"items":{"type":"integer"}}`,
			data: "[" + repeated(`7`, 190_000) + "]", accepted: true, valid: true,
		},
		{
			name: "many unknown members", schema: `{"additionalProperties":{"not":{"type":"null"}}}`,
			data: "{" + numbered(`"%":1`, 150_000) + "}", accepted: true, says: tooMany,
		},
	}
}

func TestT36HostileSchemas(t *testing.T) {
	var contacted atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		contacted.Add(1)
		_, _ = w.Write([]byte(`{"type":"string"}`))
	}))
	defer server.Close()
	cases := hostileSchemas(server.URL)
	if len(cases) < 61 {
		t.Errorf("only %d cases", len(cases))
	}
	t.Attr("schemas", fmt.Sprint(len(cases)))
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			defer checkNoHang(t, time.Now())
			s, err := schema.Compile(mcp.RawJSON(test.schema))
			if (err == nil) != test.accepted {
				t.Fatalf("got %v, want accepted %v", err, test.accepted)
			}
			if err != nil {
				if len(err.Error()) > 480 {
					t.Errorf("got %v, want a short reason", err)
				}
				return
			}
			err = s.CheckWithin(mcp.RawJSON(test.data), "value", nil)
			checkRefusal(t, err, test.valid, test.says)
			if err != nil && len(err.Error()) > 1024 {
				t.Errorf("a text of %d bytes", len(err.Error()))
			}
		})
	}
	if n := contacted.Load(); n != 0 {
		t.Errorf("the server was contacted %d times", n)
	}
}

func TestT36SameIDDoesNotPoison(t *testing.T) {
	schemas := map[string]*schema.Schema{}
	for _, kind := range []string{"string", "integer"} {
		schemas[kind] = compile(t,
			`{"$id":"https://example.com/s","type":"object","properties":{"a":{"type":"`+kind+`"}}}`)
	}
	for kind, data := range map[string]string{"string": `{"a":"x"}`, "integer": `{"a":1}`} {
		if err := schemas[kind].CheckWithin(mcp.RawJSON(data), "value", nil); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestT22PatternCost(t *testing.T) {
	wide := `^(?:` + strings.Repeat(`[a-z]{1,60}x`, 30) + `)$`
	for _, test := range []struct {
		name, schema, data string
		accepted, valid    bool
		says               string
	}{
		{"101 patterns", `{"patternProperties":{` + numbered(`"^%$":{}`, 101) + `}}`, "", false, false, ""},
		{
			"100 patterns", `{"patternProperties":{` + numbered(`"^%$":{"type":"integer"}`, 100) + `}}`,
			`{"7":1}`, true, true, "",
		},
		{
			"program times input", `{"pattern":"` + wide + `"}`, `"` + strings.Repeat("a", 100_000) + `"`, true,
			false, tooLong,
		},
		{
			"small input", `{"pattern":"` + wide + `"}`, `"` + strings.Repeat("a", 100) + `"`, true, false,
			"must match the pattern",
		},
		{
			"patternProperties on many objects", `{"items":{"patternProperties":{"` + wide +
				`":{"type":"null"}},"minProperties":1}}`, "[" + repeated(`{}`, 100_000) + "]", true, false,
			tooMany,
		},
		{
			"nested repetition", `{"pattern":"^(a+)+$"}`, `"` + strings.Repeat("a", 1_000_000) + `!"`, true,
			false, "must match the pattern",
		},
		{
			"3600 instructions, 12 KB", `{"pattern":"(?:` + strings.Repeat("a?", 60) + `){30}!"}`,
			`"` + strings.Repeat("a", 12_000) + `"`, true, false, tooLong,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer checkNoHang(t, time.Now())
			s, err := schema.Compile(mcp.RawJSON(test.schema))
			if (err == nil) != test.accepted {
				t.Fatalf("got %v, want accepted %v", err, test.accepted)
			}
			if err == nil {
				checkRefusal(t, s.CheckWithin(mcp.RawJSON(test.data), "value", nil), test.valid, test.says)
			}
		})
	}
}

// TestTwinsAmongManyValuesAreTooMany holds for names that differ only in case behind many
// values, of which each meets many subschemas: to walk to them would take seconds.
func TestTwinsAmongManyValuesAreTooMany(t *testing.T) {
	defer checkNoHang(t, time.Now())
	s := compile(t, `{"items":{"allOf":[`+repeated("{}", 480)+`]}}`)
	values := mcp.RawJSON("[" + repeated("0", 3_000) + `,{"a":1,"A":2}]`)
	checkRefusal(t, s.CheckUnambiguousWithin(values, "value", nil), false, tooMany)
	few := mcp.RawJSON(`[0,{"a":1,"A":2}]`)
	checkRefusal(t, s.CheckUnambiguousWithin(few, "value", nil), false, "differ only in form")
}

// TestTwinsAmongWhatIsNotEnforcedAreTooMany holds for subschemas of a part that cannot be
// checked: no other bound is on how many of them one value meets.
func TestTwinsAmongWhatIsNotEnforcedAreTooMany(t *testing.T) {
	inner := `{"pattern":"(?=x)"}`
	for range 4 {
		inner = `{"not":` + inner + `,"allOf":[` + repeated("{}", 480) + `]}`
	}
	s := compile(t, `{"items":{"properties":{"a":{},"A":{}},"not":`+inner+`}}`)
	twins := mcp.RawJSON("[" + repeated(`{"a":1,"A":2}`, 1_000) + "]")
	checkRefusal(t, s.CheckUnambiguousWithin(twins, "value", nil), false, tooMany)
	few := mcp.RawJSON("[" + repeated(`{"a":1,"A":2}`, 10) + "]")
	checkRefusal(t, s.CheckUnambiguousWithin(few, "value", nil), true, "")
}

// TestManyDependenciesCostNoMoreThanTheirLength holds for lists of names, which draft-07
// keeps in one object.
func TestManyDependenciesCostNoMoreThanTheirLength(t *testing.T) {
	text := `{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{` +
		numbered(`"k%":["a"]`, 4_000) + `}}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := compile(t, text)
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 100<<20 {
		t.Errorf("a schema of %d bytes took %d bytes of memory, want a few MB", len(text), spent)
	}
	checkRefusal(t, s.CheckWithin(mcp.RawJSON(`{"k3999":0}`), "value", nil), false, "a: is required when k3999 is given")
}
