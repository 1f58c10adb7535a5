package sanitize_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// concealments are the ways to hide a text within another.
var concealments = map[string]string{
	"tags":               "\U000E0069\U000E0067\U000E006E",
	"zero-width space":   "\u200b",
	"joiner":             "\u200d",
	"override":           "\u202egood\u202c",
	"selectors":          "\ufe0f\U000E0100\U000E0101",
	"invisible operator": "\u2062",
	"filler":             "\u3164",
	"soft hyphen":        "\u00ad",
	"private use":        "\ue000\U0010FFFD",
	"control":            "\x00",
	"C1":                 "\u0085",
	"escape sequence":    "\x1b[8mx\x1b[0m",
	"overwritten line":   "\rgood",
	"cleared screen":     "\fgood",
}

// TestHiddenTextInADefinitionIsCleanedOrFound puts hidden text of every kind into every
// string of definitions with all members that the revisions have, all keywords of schemas
// and members that nobody knows, and into the name of a member of every object. All
// places of a definition hold it at once, so that the whole product is quick; what
// becomes of each place is compared by its name.
func TestHiddenTextInADefinitionIsCleanedOrFound(t *testing.T) {
	cleaned, found := 0, 0
	for name, definition := range wholeDefinitions(t) {
		for kind, hidden := range concealments {
			text := "word" + hidden + "word"
			data := encoded(t, everywhere(definition, text))
			dirty := object(t, string(data))
			result, _ := cleanDefinition(dirty)
			findings, _ := concealed(dirty, math.MaxInt)
			left := textsOf(decoded(t, result.JSON()))
			var want []string
			for place := range textsOf(decoded(t, data)) {
				switch spelt := strings.ReplaceAll(place, text, sanitize.Spell(text)); {
				case !isText(place):
					found++
					want = append(want, strings.Trim(spelt, ".@"))
				case strings.Contains(left[place], hidden):
					t.Errorf("%s: %s: %s was not cleaned", name, spelt, kind)
				default:
					cleaned++
				}
				if !isText(place) && !strings.Contains(left[place], hidden) {
					t.Errorf("%s: %s: %s was edited", name, place, kind)
				}
			}
			var got []string
			for _, finding := range findings {
				got = append(got, finding.Path)
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s: places that were found (-want +got):\n%s", name, kind, diff)
			}
		}
	}
	if cleaned < 1000 || found < 5000 {
		t.Errorf("only %d cleaned and %d found: what generates them is broken", cleaned, found)
	}
}

// TestHiddenTextAloneIsCleanedOrFound puts hidden text into one place of a definition at
// a time, the kinds by turns: it is noticed without any other, and nothing else is.
func TestHiddenTextAloneIsCleanedOrFound(t *testing.T) {
	kinds, turn := slices.Sorted(maps.Keys(concealments)), 0
	for name, definition := range wholeDefinitions(t) {
		for place, put := range stringsOf(definition) {
			kind := kinds[turn%len(kinds)]
			hidden := concealments[kind]
			turn++
			dirty := object(t, string(encoded(t, put("word"+hidden+"word"))))
			result, _ := cleanDefinition(dirty)
			findings, all := concealed(dirty, 10)
			switch {
			case all == 0 && !conceals(decoded(t, result.JSON()), hidden):
				if !isText(place) {
					t.Errorf("%s: %s: %s was edited", name, place, kind)
				}
			case all == 1 && len(findings) == 1 && findings[0].Path != "":
				if isText(place) {
					t.Errorf("%s: %s: %s was not cleaned", name, place, kind)
				}
			default:
				t.Errorf("%s: %s: %s passed: found %v (%d), cleaned to %+q", name, place, kind, findings, all,
					result.JSON())
			}
		}
	}
}

// isText tells whether a place is one of the texts of a definition.
func isText(place string) bool {
	last := place[strings.LastIndexByte(place, '.')+1:]
	for _, within := range []string{"nobody", "_meta", ".default.", ".enum["} {
		if strings.HasSuffix(place, "@") || strings.Contains(place, within) {
			return false
		}
	}
	return last == "title" || last == "description" || strings.HasSuffix(place, ".enumNames[0]")
}

func conceals(value any, hidden string) bool { return strings.Contains(fmt.Sprint(value), hidden) }

func decoded(t testing.TB, data []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(data, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func encoded(t testing.TB, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// wholeDefinitions returns for every kind of definition of every revision one with all
// its members.
func wholeDefinitions(t testing.TB) map[string]any {
	t.Helper()
	all, seen := make(map[string]any), make(map[string]bool)
	for _, revision := range mcp.Revisions() {
		var schema map[string]any
		if err := json.Unmarshal(corpus.Schema(t, revision), &schema); err != nil {
			t.Fatal(err)
		}
		types, ok := schema["$defs"].(map[string]any)
		if !ok {
			types = schema["definitions"].(map[string]any)
		}
		for _, kind := range []string{"Tool", "Prompt", "Resource", "ResourceTemplate"} {
			whole := instance(types, types[kind].(map[string]any))
			if text := string(encoded(t, whole)); !seen[text] { // most did not change between revisions
				all[revision+" "+kind], seen[text] = whole, true
			}
		}
	}
	return all
}

// instance returns a value of a type with all members, and with one that nobody knows in
// each object.
func instance(types, schema map[string]any) any {
	if ref, ok := schema["$ref"].(string); ok {
		return instance(types, types[ref[strings.LastIndexByte(ref, '/')+1:]].(map[string]any))
	}
	switch schema["type"] {
	case "string":
		return "word"
	case "boolean":
		return true
	case "integer", "number":
		return 1
	case "array":
		return []any{instance(types, schema["items"].(map[string]any))}
	}
	members := map[string]any{"nobody": map[string]any{"description": []any{"word"}}}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		switch name {
		case "inputSchema":
			members[name] = wholeSchema()
			continue
		case "outputSchema":
			members[name] = smallSchema()
			continue
		}
		members[name] = instance(types, property.(map[string]any))
	}
	return members
}

// wholeSchema returns a JSON Schema with the keywords of all drafts.
func wholeSchema() map[string]any {
	schema := map[string]any{
		"type": "object", "$comment": "word", "nobody": map[string]any{"title": "word"},
		"enumNames": []any{"word"},
		"const":     "word", "default": map[string]any{"title": "word"}, "examples": []any{"word"},
		"pattern": "word",
		"format":  "word", "required": []any{"word"}, "dependentRequired": map[string]any{"a": []any{"word"}},
		"contentEncoding": "word", "contentMediaType": "word", "$id": "word", "id": "word", "$schema": "word",
		"$ref":    "word",
		"$anchor": "word", "$dynamicRef": "word", "$dynamicAnchor": "word", "$recursiveRef": "word",
		"$vocabulary": map[string]any{"word": true}, "x-mcp-header": "word",
		"discriminator": map[string]any{"propertyName": "word"},
		"dependencies":  map[string]any{"a": []any{"word"}, "b": smallSchema()},
		"items":         []any{smallSchema()},
	}
	maps.Copy(schema, smallSchema())
	for _, name := range []string{
		"properties", "patternProperties", "$defs", "definitions",
		"dependentSchemas",
	} {
		schema[name] = map[string]any{"description": smallSchema()}
	}
	for _, name := range []string{"allOf", "anyOf", "oneOf", "prefixItems"} {
		schema[name] = []any{smallSchema()}
	}
	for _, name := range []string{
		"not", "if", "then", "else", "additionalItems", "contains", "additionalProperties", "propertyNames",
		"unevaluatedItems", "unevaluatedProperties", "contentSchema",
	} {
		schema[name] = smallSchema()
	}
	return schema
}

// smallSchema returns a schema within another.
func smallSchema() map[string]any {
	return map[string]any{
		"title": "word", "description": "word",
		"enum": []any{"word", map[string]any{"description": "word"}},
	}
}

// stringsOf returns, for each string in a value, a function that returns the value with
// another string in its place. That of the name of a member has @ at the end of its
// place, and adds a member of the new name to its object.
func stringsOf(value any) map[string]func(string) any {
	all := make(map[string]func(string) any)
	switch v := value.(type) {
	case string:
		all[""] = func(text string) any { return text }
	case []any:
		for i, element := range v {
			for place, put := range stringsOf(element) {
				all[fmt.Sprintf("[%d]%s", i, place)] = func(text string) any {
					other := slices.Clone(v)
					other[i] = put(text)
					return other
				}
			}
		}
	case map[string]any:
		for name, member := range v {
			for place, put := range stringsOf(member) {
				all["."+name+place] = func(text string) any {
					other := maps.Clone(v)
					other[name] = put(text)
					return other
				}
			}
		}
		all["@"] = func(text string) any {
			other := maps.Clone(v)
			other[text] = true
			return other
		}
	}
	return all
}

// everywhere returns a value with a text in the place of each string, and with a member
// of that name in each object.
func everywhere(value any, text string) any {
	switch v := value.(type) {
	case string:
		return text
	case []any:
		var other []any
		for _, element := range v {
			other = append(other, everywhere(element, text))
		}
		return other
	case map[string]any:
		other := map[string]any{text: true}
		for name, member := range v {
			other[name] = everywhere(member, text)
		}
		return other
	}
	return value
}

// textsOf returns the strings in a value by their places. Those that everywhere gives as
// names of members have @ at the end of their places.
func textsOf(value any) map[string]string {
	all := make(map[string]string)
	add := func(step string, within any) {
		for place, text := range textsOf(within) {
			all[step+place] = text
		}
	}
	switch v := value.(type) {
	case string:
		all[""] = v
	case []any:
		for i, element := range v {
			add(fmt.Sprintf("[%d]", i), element)
		}
	case map[string]any:
		for name, member := range v {
			add("."+name, member)
			if strings.HasPrefix(name, "word") && len(name) > len("word") {
				all["."+name+"@"] = name
			}
		}
	}
	return all
}

// TestDefinitionsOfRealServersConcealNothing holds for real tools, and for what scripts
// and emoji need.
func TestDefinitionsOfRealServersConcealNothing(t *testing.T) {
	for name, data := range corpus.Tools(t) {
		if found, all := concealed(object(t, string(data)), 1); all > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
	for _, text := range []string{
		"👩\u200d👩\u200d👧", "❤\ufe0f", "🏴\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F",
		"1\ufe0f\u20e3", "می\u200cخواهم",
		"क्\u200dष", "שלום", "漢字", "\r", "\r\n", "\t", "a\r\nb", "naïve", "\u00a0", "^[\\r\\n\\u200b]+$",
	} {
		for _, frame := range []string{
			`{"name":"a","inputSchema":{"enum":[@]}}`,
			`{"name":"a","_meta":{@:1}}`, `{"uri":@}`,
		} {
			if found, all := concealed(object(t,
				strings.ReplaceAll(frame, "@", string(mcp.String(text)))), 1); all > 0 {
				t.Errorf("%+q in %s: got %v, want nothing", text, frame, found)
			}
		}
	}
}

func TestConcealedNamesPlaces(t *testing.T) {
	definition := object(
		t, `{"name":"a","inputSchema":{"properties":{"x\u200b":{"enum":["a","b","c\u202ed"]}},"y":"\u001b[0m"},"_meta":{"k":"\u0007"},`+
			`"`+strings.Repeat("long", 99)+`":"\u200b"}`)
	found, all := concealed(definition, 3)
	want := []sanitize.Finding{
		{Path: `inputSchema.properties.x\u200b`, Kind: sanitize.Hidden, First: '\u200b'},
		{Path: `inputSchema.properties.x\u200b.enum[2]`, Kind: sanitize.Hidden, First: '\u202e'},
		{Path: `inputSchema.y`, Kind: sanitize.Escape, First: '\x1b'},
	}
	if !slices.Equal(found, want) || all != 5 {
		t.Errorf("got %v of %d, want %v of 5", found, all, want)
	}
	found, _ = concealed(definition, 9)
	if got := found[3]; got != (sanitize.Finding{Path: "_meta.k", Kind: sanitize.Control, First: '\a'}) {
		t.Errorf("got %v, want a control in _meta.k", got)
	}
	if got := found[4].Path; len(got) > 200 || !strings.HasSuffix(got, "…") {
		t.Errorf("got a place of %d bytes: %s", len(got), got)
	}
}

func TestSpellIsHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"read_file": "read_file", "日本 é": "日本 é", "a\u200bb": `a\u200bb`,
		"x\ufe0f\U000E0100": `x\ufe0f\U000e0100`, "\x1b[2J": `\x1b[2J`,
		"\u202e": `\u202e`, "\\u200b": `\\u200b`, "a\nb": `a\nb`, "\xff": `\ufffd`, "\u3164": `\u3164`,
		"\ue000": `\ue000`,
	} {
		if got := sanitize.Spell(text); got != want {
			t.Errorf("%+q: got %s, want %s", text, got, want)
		}
	}
	if got := sanitize.Spell(strings.Repeat("\U000E0069", 99)); len(got) > 100 ||
		!strings.HasSuffix(got, "…") {
		t.Errorf("got %d bytes", len(got))
	}
	for _, vector := range concealments {
		for _, r := range sanitize.Spell(vector) {
			if !unicode.IsPrint(r) {
				t.Errorf("%+q is spelt with %U", vector, r)
			}
		}
	}
}
