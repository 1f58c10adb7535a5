package corpus

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Here marks the place of a Saying where a text can be put in.
const Here = "@@"

// Saying is a message as a server could send it, valid but for one string or name, in the
// middle of which stands Here. A plain string is "left"+Here+"right", and so is the end
// of a URI. A fixed word of the protocol and Base64 are what they should be, around Here.
type Saying struct {
	// of the string in the message, as CallToolResult.content[].text; of a name it ends
	// in {name}
	Path    string
	Message string // JSON
}

// Sayings returns a Saying for every place of a string in messages of that type, as the
// schema of the revision defines it: members in whatever depth, those that the schema
// does not have, and the names of members. There are none when the revision does not have
// the type. Each is as short as the schema allows.
func Sayings(t testing.TB, revision, definition string) []Saying {
	t.Helper()
	var whole map[string]any
	if err := json.Unmarshal(Schema(t, revision), &whole); err != nil { //nolint:forbidigo // a file of the tests
		t.Fatal(err)
	}
	named, ok := whole["$defs"].(map[string]any)
	if !ok {
		named, _ = whole["definitions"].(map[string]any)
	}
	if named[definition] == nil {
		return nil
	}
	s := &speaker{t: t, named: named}
	var all []Saying
	for _, v := range s.variants(definition, named[definition]) {
		all = append(all, Saying{v.path, s.written(v.value)})
	}
	return all
}

// speaker makes values of the types of one revision.
type speaker struct {
	t     testing.TB
	named map[string]any
	open  []string // the types whose values are being made, the outermost first
	turn  int      // how many open places there were
}

// variant is a value with Here in one place.
type variant struct {
	path  string
	value any
}

func (s *speaker) written(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// variants returns the values of a type for every place of a string in it.
func (s *speaker) variants(path string, schema any) (all []variant) {
	o, _ := schema.(map[string]any)
	if name, refers := reference(o); refers {
		if slices.Contains(s.open, name) { // it holds values of its own kind
			return nil
		}
		s.open = append(s.open, name)
		defer func() { s.open = s.open[:len(s.open)-1] }()
		return s.variants(path, s.named[name])
	}
	if o = s.merged(o); o["anyOf"] != nil {
		for _, one := range o["anyOf"].([]any) {
			all = append(all, s.variants(path+s.kind(one), one)...)
		}
		return all
	}
	switch {
	case len(o) == 0 || o["type"] == "object" && o["properties"] == nil && o["additionalProperties"] == nil:
		return s.anything(path, len(o) > 0)
	case o["properties"] != nil || o["additionalProperties"] != nil:
		return s.members(path, o)
	case o["items"] != nil:
		for _, v := range s.variants(path+"[]", o["items"]) {
			all = append(all, variant{v.path, []any{v.value}})
		}
		return all
	}
	if text, is := s.minimal(o).(string); is {
		all = append(all, variant{path, dirty(text)})
	}
	return all
}

// members returns the variants of an object, one member after the other.
func (s *speaker) members(path string, o map[string]any) (all []variant) {
	least, _ := s.minimal(o).(map[string]any)
	with := func(name string, value any) any {
		whole := maps.Clone(least)
		whole[name] = value
		return whole
	}
	properties, _ := o["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		for _, v := range s.variants(path+"."+name, properties[name]) {
			all = append(all, variant{v.path, with(name, v.value)})
		}
	}
	more := o["additionalProperties"]
	if more == nil || more == true {
		more = map[string]any{}
	}
	for _, v := range s.variants(path+".*", more) {
		all = append(all, variant{v.path, with("unheard", v.value)})
	}
	return append(all, variant{path + "{name}", with(dirty(""), s.minimal(more))})
}

// meaningful are members that mean something in some place of the protocol, and nothing
// where the schema leaves open what there is.
var meaningful = []string{
	"id", "uri", "text", "data", "cursor", "taskId", "requestState", "requestedSchema",
	"url", "nextCursor", "toolUseId",
}

// anything returns the variants of a value that the schema leaves open. Each place gets
// one of the meaningful members in turn: there are hundreds of such places.
func (s *speaker) anything(path string, isObject bool) []variant {
	text, name := dirty(""), meaningful[s.turn%len(meaningful)]
	s.turn++
	all := []variant{
		{path + "{name}", map[string]any{text: 1}},
		{path + "." + name, map[string]any{name: text}},
	}
	if !isObject {
		all = append(all, variant{path, text}, variant{path + "[]", []any{[]any{text}}})
	}
	return all
}

// dirty returns a text with Here in it.
func dirty(text string) string {
	if text == "" || text == "s" || strings.HasSuffix(text, "/s") {
		return strings.TrimSuffix(text, "s") + "left" + Here + "right"
	}
	return text[:len(text)/2] + Here + text[len(text)/2:]
}

// minimal returns a value that has no more than it must, but one element in each array.
func (s *speaker) minimal(schema any) any {
	o, _ := schema.(map[string]any)
	if name, refers := reference(o); refers {
		if slices.Contains(s.open, name) { // a value within a value of its own kind
			return "s"
		}
		s.open = append(s.open, name)
		defer func() { s.open = s.open[:len(s.open)-1] }()
		return s.minimal(s.named[name])
	}
	o = s.merged(o)
	if some, is := o["anyOf"].([]any); is {
		return s.minimal(some[0])
	}
	if fixed, is := o["const"]; is {
		return fixed
	}
	if values, is := o["enum"].([]any); is {
		return values[0]
	}
	kind := o["type"]
	if several, is := kind.([]any); is {
		kind = several[0]
	}
	switch kind {
	case "array":
		return []any{s.minimal(o["items"])}
	case "boolean":
		return true
	case "integer", "number":
		return 1
	case "object":
		return s.required(o)
	}
	switch format, _ := o["format"].(string); format {
	case "byte":
		return "leftright+/8="
	case "uri", "uri-template":
		return "https://x.test/s"
	}
	return "s"
}

func (s *speaker) required(o map[string]any) any {
	least := make(map[string]any)
	properties, _ := o["properties"].(map[string]any)
	names, _ := o["required"].([]any)
	for _, name := range names {
		least[name.(string)] = s.minimal(properties[name.(string)])
	}
	return least
}

// merged returns a schema without allOf.
func (s *speaker) merged(o map[string]any) map[string]any {
	parts, is := o["allOf"].([]any)
	if !is {
		return o
	}
	properties, names := make(map[string]any), []any{}
	for _, part := range parts {
		inner, _ := part.(map[string]any)
		if name, refers := reference(inner); refers {
			inner, _ = s.named[name].(map[string]any)
		}
		inner = s.merged(inner)
		some, _ := inner["properties"].(map[string]any)
		maps.Copy(properties, some)
		more, _ := inner["required"].([]any)
		names = append(names, more...)
	}
	return map[string]any{"type": "object", "properties": properties, "required": names}
}

// kind returns how a path tells apart the alternatives of a value: by their fixed type or
// method.
func (s *speaker) kind(schema any) string {
	o, _ := schema.(map[string]any)
	if name, refers := reference(o); refers {
		o, _ = s.named[name].(map[string]any)
	}
	properties, _ := o["properties"].(map[string]any)
	for _, name := range []string{"type", "method", "mode"} {
		inner, _ := properties[name].(map[string]any)
		if inner["const"] != nil {
			return fmt.Sprintf("<%v>", inner["const"])
		}
	}
	return ""
}

// reference returns the name of the type that a schema refers to.
func reference(o map[string]any) (name string, refers bool) {
	path, refers := o["$ref"].(string)
	return path[strings.LastIndexByte(path, '/')+1:], refers
}
