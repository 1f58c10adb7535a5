package corpus

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/fatal"
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
	types := TypesOf(t, revision)
	if types[definition] == nil {
		return nil
	}
	s := &speaker{t: t, types: types}
	var all []Saying
	for _, v := range s.variants(definition, types[definition]) {
		all = append(all, Saying{v.path, s.written(v.value)})
	}
	return all
}

// speaker makes values of the types of one revision.
type speaker struct {
	t     testing.TB
	types Types
	open  []string // the types whose values are being made, the outermost first
	turn  int      // how many open places there were
}

// variant is a value with Here in one place.
type variant struct {
	path  string
	value any
}

func (s *speaker) written(value any) string { return string(fatal.Have(json.Marshal(value))(s.t)) }

// enter begins the values of the type that one refers to, until leave is called. It
// returns nil if that is within a value of its own kind.
func (s *speaker) enter(t *Type) (inner *Type, leave func()) {
	if slices.Contains(s.open, t.Refers()) {
		return nil, func() {}
	}
	s.open = append(s.open, t.Refers())
	return s.types[t.Refers()], func() { s.open = s.open[:len(s.open)-1] }
}

// variants returns the values of a type for every place of a string in it.
func (s *speaker) variants(path string, t *Type) (all []variant) {
	if t.Ref != "" {
		inner, leave := s.enter(t)
		defer leave()
		if inner != nil {
			all = s.variants(path, inner)
		}
		return all
	}
	t = s.types.Of(t)
	open := t.Properties == nil && t.AdditionalProperties == nil
	switch {
	case t.AnyOf != nil:
		for _, one := range t.AnyOf {
			all = append(all, s.variants(path+s.kind(one), one)...)
		}
	case t.Kind == nil || t.Kind == "object" && open:
		return s.anything(path, t.Kind != nil)
	case !open:
		return s.members(path, t)
	case t.Items != nil:
		for _, v := range s.variants(path+"[]", t.Items) {
			all = append(all, variant{v.path, []any{v.value}})
		}
	default:
		if text, is := s.minimal(t).(string); is {
			all = append(all, variant{path, dirty(text)})
		}
	}
	return all
}

// members returns the variants of an object, one member after the other.
func (s *speaker) members(path string, t *Type) (all []variant) {
	least, _ := s.minimal(t).(map[string]any)
	with := func(name string, value any) any {
		whole := maps.Clone(least)
		whole[name] = value
		return whole
	}
	for _, name := range slices.Sorted(maps.Keys(t.Properties)) {
		for _, v := range s.variants(path+"."+name, t.Properties[name]) {
			all = append(all, variant{v.path, with(name, v.value)})
		}
	}
	more := cmp.Or(t.AdditionalProperties, &Type{})
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
func (s *speaker) minimal(t *Type) any {
	if t.Ref != "" {
		inner, leave := s.enter(t)
		defer leave()
		if inner == nil {
			return "s"
		}
		return s.minimal(inner)
	}
	t = s.types.Of(t)
	switch {
	case t.AnyOf != nil:
		return s.minimal(t.AnyOf[0])
	case t.Const != nil:
		return t.Const
	case t.Enum != nil:
		return t.Enum[0]
	}
	kind := t.Kind
	if several, is := kind.([]any); is {
		kind = several[0]
	}
	switch kind {
	case "array":
		return []any{s.minimal(t.Items)}
	case "boolean":
		return true
	case "integer", "number":
		return 1
	case "object":
		least := make(map[string]any)
		for _, name := range t.Required {
			least[name] = s.minimal(t.Properties[name])
		}
		return least
	}
	return cmp.Or(map[string]string{
		"byte": "leftright+/8=", "uri": "https://x.test/s", "uri-template": "https://x.test/s",
	}[t.Format], "s")
}

// kind returns how a path tells apart the alternatives of a value: by their fixed type or
// method.
func (s *speaker) kind(t *Type) string {
	for _, name := range []string{"type", "method", "mode"} {
		if inner := s.types.Of(t).Properties[name]; inner != nil && inner.Const != nil {
			return fmt.Sprintf("<%v>", inner.Const)
		}
	}
	return ""
}
