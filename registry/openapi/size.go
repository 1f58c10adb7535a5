package openapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// This file makes the definitions of large operations fit the limits of the catalogue. It
// first shortens descriptions, then leaves out the output schema, and at last optional
// inputs. A model can do more with a reduced tool than with none.

// fitting makes a tool of a size that the catalogue takes. What was reduced is noted for
// the operator; the error says that no reduction suffices.
func (m *maker) fitting() (t *tool, err error) {
	for _, m.texts = range []int{maxDescription, 400, 150, leastText, 0} {
		if t, err = m.make(); err != nil {
			return nil, err
		}
		if t.oversize() == "" {
			break
		}
	}
	switch {
	case m.texts == 0:
		t.input.note("descriptions within its schemas are left out, for it to fit")
	case m.texts < maxDescription:
		t.input.note("descriptions within its schemas are cut to %d bytes, for it to fit", m.texts)
	}
	return t, m.omit(t)
}

// oversize says what is too large about the tool, "" when nothing is.
func (t *tool) oversize() string {
	switch {
	case len(t.definition.Value("inputSchema")) > schema.MaxSize:
		return fmt.Sprintf("its input schema has more than %d bytes", schema.MaxSize)
	case len(t.definition.Value("outputSchema")) > schema.MaxSize:
		return fmt.Sprintf("its output schema has more than %d bytes", schema.MaxSize)
	case len(t.definition.JSON()) > registry.MaxDefinition:
		return fmt.Sprintf("its definition has more than %d bytes", registry.MaxDefinition)
	}
	return ""
}

// maxLeftOut bounds how many inputs are left out of one tool. Each costs a new
// definition, and so time.
const maxLeftOut = 100

// omit takes optional things out of a tool until it fits: first the output schema,
// then the largest inputs, one by one.
func (m *maker) omit(t *tool) error {
	for left := 0; ; left++ {
		reason := t.oversize()
		if reason == "" {
			return nil
		}
		largest := t.largestInput()
		switch {
		case t.definition.Has("outputSchema"):
			m.outputSchemas, t.output = false, nil
			t.input.note("its output schema is left out: with it, %s", reason)
		case largest == nil || left >= maxLeftOut:
			return fmt.Errorf("%s, also without descriptions and the largest inputs that may be missing",
				reason)
		default:
			largest.remove()
			t.input.note("the input %q is left out: with it, %s", largest.name, reason)
		}
		if err := m.define(t); err != nil {
			return err
		}
	}
}

// input is an optional argument, or an optional property of the body.
type input struct {
	name   string // as the operator is told: a property of the body is body.name
	schema mcp.RawJSON
	remove func() // takes the input out of the tool; its definition must be made anew
}

// largestInput returns the optional input with the largest schema, together with all
// definitions that the schema refers to, or nil when there is none. Of equally large
// inputs it is the first, arguments before properties of the body.
func (t *tool) largestInput() *input {
	var largest *input
	most := 0
	for _, one := range slices.Concat(t.optionalArguments(), t.optionalProperties()) {
		size := len(one.name) + len(one.schema)
		for _, definition := range t.input.reached(one.schema) {
			size += len(definition)
		}
		if size > most {
			largest, most = &one, size
		}
	}
	return largest
}

// optionalArguments returns the arguments that are not required.
func (t *tool) optionalArguments() []input {
	var all []input
	for _, a := range t.arguments {
		if !a.required {
			all = append(all, input{a.name, a.schema, func() {
				t.arguments = slices.DeleteFunc(t.arguments, func(other *argument) bool { return other == a })
			}})
		}
	}
	return all
}

// optionalProperties returns the properties of the body that are not required; none when
// its schema cannot be changed.
func (t *tool) optionalProperties() []input {
	if t.body == nil {
		return nil
	}
	schema, ok := t.input.opened(t.body.schema)
	if !ok {
		return nil
	}
	var all []input
	for name, property := range schema.Object("properties").Members {
		if !requires(schema, name) {
			all = append(all, input{
				"body." + name, property,
				func() { t.body.schema = withoutProperty(schema, name) },
			})
		}
	}
	return all
}

// requires tells whether an object schema requires the property of that name.
func requires(schema mcp.Object, name string) bool {
	required, _ := schema.Value("required").Elements()
	return slices.ContainsFunc(required, func(element mcp.RawJSON) bool {
		return element.Says(name)
	})
}

// withoutProperty returns an object schema without the property of that name, which it
// must not require.
func withoutProperty(schema mcp.Object, name string) mcp.RawJSON {
	return schema.With("properties", schema.Object("properties").Without(name).JSON()).JSON()
}

// opened returns a converted schema with what its $ref leads to in the place of the $ref,
// so that properties can be taken out of it. ok is false when that is not possible: the
// schema and its target have the same keyword, both of which count, or references lead in
// a circle.
func (s *schemas) opened(raw mcp.RawJSON) (schema mcp.Object, ok bool) {
	schema, ok = mcp.ObjectOf(raw)
	for range maxItemReferences {
		name, refers := strings.CutPrefix(schema.Text("$ref"), "#/$defs/")
		if !refers {
			return schema, ok && !schema.Has("$ref")
		}
		there, _ := mcp.ObjectOf(s.defs[name])
		for name, value := range schema.Without("$ref").Members {
			if there.Has(name) && name != "description" && name != "title" {
				return schema, false
			}
			there = there.With(name, value)
		}
		schema = there
	}
	return schema, false
}

// reached returns by name the definitions of $defs that a schema refers to, directly or
// through other definitions.
func (s *schemas) reached(raw mcp.RawJSON) map[string]mcp.RawJSON {
	found := map[string]mcp.RawJSON{}
	for open := referencesIn(nil, raw); len(open) > 0; {
		name, _ := strings.CutPrefix(open[0], "#/$defs/")
		open = open[1:]
		if definition, known := s.defs[name]; known && found[name] == nil {
			found[name] = definition
			open = referencesIn(open, definition)
		}
	}
	return found
}

// referencesIn appends to found the text of every $ref in a schema. Of lists of texts it
// may have some that are none.
func referencesIn(found []string, raw mcp.RawJSON) []string {
	refers := false // the name $ref stands before
	for _, token := range strictjson.Tokens(raw) {
		if text, is := strictjson.Text(token); is && refers {
			found = append(found, text)
		}
		refers = string(token) == `"$ref"`
	}
	return found
}

// definitions returns the $defs that a schema needs, as JSON ordered by name; nil when it
// needs none.
func (s *schemas) definitions(raw mcp.RawJSON) mcp.RawJSON {
	reached := s.reached(raw)
	if len(reached) == 0 {
		return nil
	}
	members := make([]mcp.Member, 0, len(reached))
	for _, name := range slices.Sorted(maps.Keys(reached)) {
		members = append(members, mcp.Member{Name: name, Value: reached[name]})
	}
	return mcp.NewObject(members...).JSON()
}
