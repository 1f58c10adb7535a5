package schema_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// oracle compiles a schema with another library.
func oracle(raw []byte) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(jsonschema.SchemeURLLoader{})
	if err := compiler.AddResource("mem:///schema.json", document); err != nil {
		return nil, err
	}
	return compiler.Compile("mem:///schema.json")
}

// generator makes random schemas and values that are likely to meet. A document uses few
// keywords, and those often.
type generator struct {
	*rand.Rand
	keywords []string
}

func (m generator) one(texts ...string) string { return texts[m.IntN(len(texts))] }

func (m generator) name() string { return m.one(`"a"`, `"b"`, `"c"`, `"ab"`, `"A"`, `""`, `"é"`) }

func (m generator) scalar() string {
	return m.one(`0`, `1`, `1.0`, `1e0`, `-3`, `2.5`, `12345678901234567890`, `3`, `true`, `false`, `null`,
		`"a"`, `"b"`, `""`, `"ab"`, `"aab"`, `"é"`, `"\u0061"`, `"🙂x"`, `"1"`)
}

func (m generator) value(depth int) string {
	switch m.IntN(4) {
	case 0:
		if depth > 0 {
			var members []string
			seen := map[string]bool{}
			for range m.IntN(4) {
				if name := m.name(); !seen[name] {
					seen[name] = true
					members = append(members, name+":"+m.value(depth-1))
				}
			}
			return "{" + strings.Join(members, ",") + "}"
		}
	case 1:
		if depth > 0 {
			items := make([]string, m.IntN(4))
			for i := range items {
				items[i] = m.value(depth - 1)
			}
			return "[" + strings.Join(items, ",") + "]"
		}
	}
	return m.scalar()
}

func (m generator) list(depth int) string {
	items := make([]string, 1+m.IntN(3))
	for i := range items {
		items[i] = m.schema(depth)
	}
	return "[" + strings.Join(items, ",") + "]"
}

func (m generator) object(names func() string, values func() string) string {
	var members []string
	seen := map[string]bool{}
	for range 1 + m.IntN(3) {
		if name := names(); !seen[name] {
			seen[name] = true
			members = append(members, name+":"+values())
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (m generator) names() string {
	list := []string{`"a"`, `"b"`, `"c"`, `"ab"`}
	m.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return "[" + strings.Join(list[:m.IntN(3)], ",") + "]"
}

func (m generator) schema(depth int) string {
	if depth <= 0 || m.IntN(12) == 0 {
		return m.one("true", "false", "{}", `{"type":"string"}`, `{"type":["integer","null"]}`,
			`{"type":"object"}`, `{"type":"number"}`, `{"type":"array"}`)
	}
	var members []string
	seen := map[string]bool{}
	for range 1 + m.IntN(4) {
		keyword, value := m.keyword(depth - 1)
		if !seen[keyword] {
			seen[keyword] = true
			members = append(members, `"`+keyword+`":`+value)
		}
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (m generator) keyword(depth int) (keyword, value string) {
	sub := func() string { return m.schema(depth) }
	switch keyword = m.one(m.keywords...); keyword {
	case "type":
		return keyword, m.one(`"object"`, `"array"`, `"string"`, `"integer"`, `"number"`, `"boolean"`,
			`"null"`, `["string","null"]`, `["object","array"]`, `["integer","string"]`)
	case "enum":
		return keyword, "[" + m.value(1) + "," + m.value(1) + "]"
	case "const", "default":
		return keyword, m.value(1)
	case "required":
		return keyword, m.names()
	case "dependentRequired":
		return keyword, m.object(m.name, m.names)
	case "properties", "dependentSchemas":
		return keyword, m.object(m.name, sub)
	case "patternProperties":
		return keyword, m.object(func() string { return m.one(`"^a"`, `"b$"`, `"^.$"`) }, sub)
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return keyword, m.list(depth)
	case "minimum", "exclusiveMaximum":
		return keyword, m.one("0", "1", "2.5", "1.0", "-1e2", "12345678901234567890")
	case "multipleOf":
		return keyword, m.one("1", "2", "0.5", "1e-2")
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
		"maxContains":
		return keyword, m.one("0", "1", "2", "3")
	case "pattern":
		return keyword, m.one(`"^a"`, `"b$"`, `"^.$"`, `"^\\S+$"`)
	case "uniqueItems":
		return keyword, m.one("true", "false")
	case "$ref":
		return keyword, m.one(`"#/$defs/x"`, `"#/$defs/y"`, `"#"`, `"#/$defs/x/properties/a"`,
			`"#/properties/a"`, `"#named"`)
	case "title", "contentEncoding":
		return keyword, m.one(`"base64"`, `"x"`)
	}
	return keyword, sub()
}

// document makes a whole schema, with definitions for references. It uses the frequent
// keywords more often than others.
func (m generator) document(frequent ...string) string {
	m.keywords = []string{
		"type", "enum", "const", "required", "properties", "items", "prefixItems", "additionalProperties",
		"patternProperties", "propertyNames", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
		"contains",
		"minContains", "maxContains", "dependentSchemas", "dependentRequired", "unevaluatedItems",
		"unevaluatedProperties",
		"minimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems",
		"maxItems",
		"uniqueItems", "minProperties", "maxProperties", "$ref", "title", "contentEncoding", "default",
	}
	m.Shuffle(len(m.keywords), func(i, j int) { m.keywords[i], m.keywords[j] = m.keywords[j], m.keywords[i] })
	m.keywords = append(m.keywords[:4+m.IntN(8)], "type", "properties", "items")
	m.keywords = append(m.keywords, frequent...)
	body := m.schema(3)
	if len(body) < 2 || body[0] != '{' {
		return `{"allOf":[` + body + `]}`
	}
	definitions := fmt.Sprintf(`"$defs":{"x":{"properties":{"a":%s}},"y":{"$anchor":"named","allOf":[%s]}}`,
		m.schema(1), m.schema(1))
	if body == "{}" {
		return "{" + definitions + "}"
	}
	return body[:len(body)-1] + "," + definitions + "}"
}

// compare fails when a verdict of ours differs from the oracle's. It returns false when
// the schema was refused.
func compare(t *testing.T, text string, values []string) bool {
	t.Helper()
	raw := compact(t, []byte(text))
	other, err := oracle(raw)
	if err != nil {
		if _, _, mine := schema.Verdicts(raw, mcp.RawJSON("1")); mine == nil {
			t.Errorf("accepted a schema that the oracle refuses: %s: %v", text, err)
		}
		return false
	}
	for _, data := range values {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		fast, library, err := schema.Verdicts(raw, mcp.RawJSON(data))
		if err != nil {
			return false
		}
		want := other.Validate(value) == nil
		if library != want || fast && !want {
			t.Errorf("schema %s\nvalue %s\ngot fast path %v, library %v; want %v", text, data, fast, library,
				want)
		}
	}
	return true
}

func TestRandomSchemasAgreeWithOracle(t *testing.T) {
	rounds := 800
	if testing.Short() {
		rounds = 200
	}
	m := generator{Rand: rand.New(rand.NewPCG(20260728, 1))}
	accepted := 0
	for range rounds {
		text := m.document()
		values := make([]string, 6)
		for i := range values {
			values[i] = m.value(3)
		}
		if compare(t, text, values) {
			accepted++
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d of %d schemas accepted", accepted, rounds)
	if accepted < rounds/3 {
		t.Errorf("accepted only %d of %d schemas", accepted, rounds)
	}
}

// TestLimitsHoldWhereFloatsRound compares limits and values beside 2^53, from where a
// float no longer has every integer.
func TestLimitsHoldWhereFloatsRound(t *testing.T) {
	t.Parallel()
	var beside []string
	for n := int64(1<<53 - 1); n <= 1<<53+2; n++ {
		beside = append(beside, fmt.Sprint(n), fmt.Sprint(-n))
	}
	for _, keyword := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
		for _, limit := range beside {
			if text := `{"` + keyword + `":` + limit + `}`; !compare(t, text, beside) {
				t.Errorf("%s was refused", text)
			}
		}
	}
}

func decodeForOracle(value []byte) (any, error) {
	return jsonschema.UnmarshalJSON(bytes.NewReader(value))
}

// isTame tells whether the oracle reads the schema as it should: its patterns are those
// of RE2, and it knows formats.
func isTame(schema []byte) bool {
	return !bytes.Contains(schema, []byte("attern")) && !bytes.Contains(schema, []byte("$schema"))
}

func TestMistakesOfTheLibraryAreAvoided(t *testing.T) {
	for _, test := range []struct {
		name, schema string
		values       []string
	}{
		{
			"unevaluatedItems leaks from an item into the list",
			`{"unevaluatedItems":{"type":"array","items":{"type":"integer"}}}`,
			[]string{
				`[[1,2],"x"]`,
				`[[1]]`,
			},
		},
		{
			"true evaluates every member", `{"oneOf":[true,false],"unevaluatedProperties":false}`,
			[]string{`{"a":1}`, `{}`},
		},
		{
			"if true evaluates every member", `{"if":true,"unevaluatedProperties":false}`,
			[]string{`{"a":1}`, `{}`},
		},
		{
			"a pointer is looked up from the referring schema upwards",
			`{"properties":{"a":{"type":"string"},"b":{"properties":{"a":{"type":"integer"},"c":{"$ref":"#/properties/a"}}}}}`,
			[]string{`{"b":{"c":1}}`, `{"b":{"c":"x"}}`},
		},
		{"content is an annotation", `{"contentEncoding":"base64"}`, []string{`"%"`}},
		{"format is an annotation", `{"format":"email"}`, []string{`"x"`}},
		{"white space is wider than that of RE2", `{"pattern":"^\\s$"}`, []string{`" "`, `"x"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !compare(t, test.schema, test.values) {
				t.Error("refused")
			}
		})
	}
}
