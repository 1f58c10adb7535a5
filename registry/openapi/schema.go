package openapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// direction says what a schema describes. It decides which properties are left out: those
// that are read-only from requests, those that are write-only from answers.
type direction int

const (
	request direction = iota
	answer
)

// schemas converts schemas of a document to JSON Schema 2020-12, for one tool and one
// direction. Schemas of OpenAPI 3.0 are a dialect of their own (nullable,
// exclusiveMinimum as a flag); those of 3.1 are nearly JSON Schema. What a schema refers
// to becomes a definition in $defs of the tool. It is for one goroutine.
type schemas struct {
	from  *document
	doc   *openapi3.T // the part of from that the operation needs, as the library reads it
	old   bool        // the document is of 3.0
	dir   direction
	texts int                    // bytes that a description may have; maxDescription: any number
	defs  map[string]mcp.RawJSON // by name; nil while a definition is being made, so that recursion ends
	// what absent returns for what a reference leads to; nil while that is looked for
	absences map[string][]string

	notes []string // for the operator: in what the tool differs from the document, each once
}

// note tells the operator something, once.
func (s *schemas) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(s.notes, text) {
		s.notes = append(s.notes, text)
	}
}

func newSchemas(o *loaded, dir direction) *schemas {
	return &schemas{
		from: o.from, doc: o.doc, old: o.doc.IsOpenAPI30(), dir: dir,
		defs: map[string]mcp.RawJSON{}, absences: map[string][]string{},
	}
}

// components begins the references to schemas of the document's components.
const components = "#/components/schemas/"

// of returns the schema that ref has or refers to, converted. A missing schema allows
// everything. description is that of the parameter or body that has the schema; it is
// used when the schema has none itself.
func (s *schemas) of(ref *openapi3.SchemaRef, description string) (mcp.RawJSON, error) {
	if ref == nil || ref.Ref == "" && ref.Value == nil {
		return described(mcp.RawJSON("{}"), description), nil
	}
	text, err := ref.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	raw, err := mcp.ParseRaw(text)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	converted, err := s.convert(described(raw, description))
	if err != nil {
		return nil, err
	}
	// again, since convert drops what stands beside a reference in 3.0
	return described(converted, description), nil
}

// described returns the schema with that description, or unchanged when it has one of its
// own.
func described(raw mcp.RawJSON, description string) mcp.RawJSON {
	o, ok := mcp.ObjectOf(raw)
	if !ok || description == "" || o.Has("description") {
		return raw
	}
	return o.With("description", mcp.String(description)).JSON()
}

// convert converts one schema and those within it. A value that is no object (true and
// false are schemas too) stays as it is; when it is no schema, the catalogue refuses it.
func (s *schemas) convert(raw mcp.RawJSON) (mcp.RawJSON, error) { return s.convertPart(raw, nil) }

// convertPart is convert for what is part of another schema by allOf, in which absent are
// absent; nil: that was not looked for yet.
func (s *schemas) convertPart(raw mcp.RawJSON, absent []string) (mcp.RawJSON, error) {
	from, ok := mcp.ObjectOf(raw)
	if !ok {
		return raw, nil
	}
	if absent == nil {
		absent = s.absent(from)
	}
	var to mcp.Object
	if ref := from.Text("$ref"); ref != "" {
		local, err := s.refer(ref)
		if err != nil {
			return nil, err
		}
		to = to.With("$ref", mcp.String(local))
		// members beside a reference are ignored:
		// https://spec.openapis.org/oas/v3.0.4.html#reference-object
		if s.old {
			return to.JSON(), nil
		}
	}
	for name, value := range from.Members {
		value, err := s.keyword(from, name, value, absent)
		if err != nil {
			return nil, err
		}
		if value != nil {
			to = to.With(name, value)
		}
	}
	to = exclusive(to, "minimum", "exclusiveMinimum")
	to = exclusive(to, "maximum", "exclusiveMaximum")
	if s.old && string(from.Value("nullable")) == "true" {
		to = nullable(to)
	}
	return to.JSON(), nil
}

// text returns an annotation as s.texts allows: whole, or shortened and without examples
// and comments. nil leaves it out.
func (s *schemas) text(name string, value mcp.RawJSON) mcp.RawJSON {
	text, ok := value.Text()
	switch {
	case s.texts >= maxDescription:
		return value
	case !ok || s.texts == 0 || name == "examples" || name == "$comment":
		return nil
	}
	return mcp.String(mcp.Clip(text, s.texts))
}

// keyword converts the value of one keyword of the schema from, in which absent are
// absent. nil leaves the keyword out.
func (s *schemas) keyword(from mcp.Object, name string, value mcp.RawJSON,
	absent []string,
) (mcp.RawJSON, error) {
	switch name {
	case "description", "title", "examples", "$comment":
		return s.text(name, value), nil
	case "$ref", "nullable", "discriminator", "xml", "externalDocs", "example", "readOnly", "writeOnly",
		"$schema", "$id":
		return nil, nil
	case "properties":
		return s.named(value, func(property mcp.RawJSON) bool { return s.hidden(property) })
	case "patternProperties", "dependentSchemas", "$defs", "definitions":
		return s.named(value, func(mcp.RawJSON) bool { return false })
	case "required":
		return s.required(value, from.Object("properties"), absent), nil
	case "allOf":
		return s.list(value, absent)
	case "anyOf", "oneOf", "prefixItems":
		return s.list(value, nil)
	case "items", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties",
		"unevaluatedProperties", "unevaluatedItems", "contentSchema":
		return s.convert(value)
	}
	// above all x-mcp-header, with which a document would make clients send headers
	if strings.HasPrefix(name, "x-") {
		return nil, nil
	}
	return value, nil
}

// named converts an object of schemas by name, without those that hidden is true for.
func (s *schemas) named(raw mcp.RawJSON, hidden func(mcp.RawJSON) bool) (mcp.RawJSON, error) {
	from, ok := mcp.ObjectOf(raw)
	if !ok {
		return raw, nil
	}
	members := make([]mcp.Member, 0, from.Len())
	for name, value := range from.Members {
		if hidden(value) {
			continue
		}
		converted, err := s.convert(value)
		if err != nil {
			return nil, err
		}
		members = append(members, mcp.Member{Name: name, Value: converted})
	}
	return mcp.NewObject(members...).JSON(), nil
}

// list converts an array of schemas, in which absent are absent.
func (s *schemas) list(raw mcp.RawJSON, absent []string) (mcp.RawJSON, error) {
	elements, ok := raw.Elements()
	if !ok {
		return raw, nil
	}
	for i := range elements {
		var err error
		if elements[i], err = s.convertPart(elements[i], absent); err != nil {
			return nil, err
		}
	}
	return mcp.Array(elements), nil
}

// required converts the value of required: without the names of hidden properties, which
// are required in the other direction only. nil when no name is left.
func (s *schemas) required(raw mcp.RawJSON, properties mcp.Object, absent []string) mcp.RawJSON {
	elements, ok := raw.Elements()
	if !ok {
		return raw
	}
	kept := elements[:0]
	for _, element := range elements {
		name, _ := element.Text()
		if !s.hidden(properties.Value(name)) && !slices.Contains(absent, name) {
			kept = append(kept, element)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return mcp.Array(kept)
}

// hidden tells whether a property does not exist in this direction: it, or the component
// that it refers to, is readOnly in a request or writeOnly in an answer.
func (s *schemas) hidden(property mcp.RawJSON) bool {
	o, _ := mcp.ObjectOf(property)
	keyword := "readOnly"
	if s.dir == answer {
		keyword = "writeOnly"
	}
	if string(o.Value(keyword)) == "true" && (!s.old || !o.Has("$ref")) {
		return true
	}
	name, local := strings.CutPrefix(o.Text("$ref"), components)
	component := s.component(name)
	if !local || component == nil || component.Value == nil {
		return false
	}
	return s.dir == request && component.Value.ReadOnly || s.dir == answer && component.Value.WriteOnly
}

// maxAbsent bounds the names that absent returns.
const maxAbsent = 1000

// absent returns the names of properties that do not exist in this direction, of a schema
// and of all that it consists of by allOf and $ref. One part may have the property, and
// another require it. They are never nil, so that no part looks for them again.
func (s *schemas) absent(schema mcp.Object) []string {
	names := []string{}
	for name, property := range schema.Object("properties").Members {
		if s.hidden(property) {
			names = append(names, name)
		}
	}
	parts, _ := schema.Value("allOf").Elements()
	for _, part := range parts {
		if len(names) > maxAbsent {
			break
		}
		one, _ := mcp.ObjectOf(part)
		names = append(names, s.absent(one)...)
	}
	if ref := schema.Text("$ref"); ref != "" {
		names = append(names, s.absentAt(ref)...)
	}
	return names[:min(len(names), maxAbsent)]
}

// absentAt is absent for what a reference leads to.
func (s *schemas) absentAt(ref string) []string {
	if _, known := s.absences[ref]; !known {
		s.absences[ref] = nil                            // for references that lead back here
		if target, err := s.from.find(ref); err == nil { // else refer says so
			if schema, err := mcp.ParseObject(target); err == nil { // else it has no properties
				s.absences[ref] = s.absent(schema)
			}
		}
	}
	return s.absences[ref]
}

// component returns the schema of that name in the components, nil when there is none.
func (s *schemas) component(name string) *openapi3.SchemaRef {
	if s.doc.Components == nil {
		return nil
	}
	return s.doc.Components.Schemas[name]
}

// refer returns what a reference becomes: a reference to a definition in $defs, which it
// makes unless it exists. The definition of a component has the component's name.
func (s *schemas) refer(ref string) (string, error) {
	name, local := strings.CutPrefix(ref, components)
	component := s.component(name)
	if !local || component == nil || !plainName(name) {
		return s.referElsewhere(ref)
	}
	return s.defined(name, func() (mcp.RawJSON, error) { return s.of(component, "") })
}

// defined returns a reference to the definition of that name, which read makes unless it
// exists.
func (s *schemas) defined(name string, read func() (mcp.RawJSON, error)) (string, error) {
	if _, known := s.defs[name]; !known {
		s.defs[name] = nil // for references to it from within itself
		definition, err := read()
		if err != nil {
			return "", err
		}
		s.defs[name] = definition
	}
	return "#/$defs/" + name, nil
}

// referElsewhere is refer for references to anything but a component, as into the middle
// of a component or a path, and for components whose names would need escaping in a
// reference.
func (s *schemas) referElsewhere(ref string) (string, error) {
	return s.defined(hashed("at", ref), func() (mcp.RawJSON, error) {
		target, err := s.from.find(ref)
		if err != nil {
			return nil, err
		}
		raw, err := mcp.ParseRaw(slices.Clone(target))
		if err != nil {
			return nil, fmt.Errorf("$ref %q: %w", mcp.Clip(ref, maxReason), err)
		}
		return s.convert(raw)
	})
}

// plainName tells whether the name of a component needs no escaping in a reference. Other
// names are not valid, but occur.
// https://spec.openapis.org/oas/v3.1.1.html#components-object
func plainName(name string) bool {
	return strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// exclusive converts an exclusive bound from the form of 3.0, a flag beside the bound, to
// that of JSON Schema, in which the keyword has the bound as its value.
func exclusive(o mcp.Object, bound, flag string) mcp.Object {
	switch string(o.Value(flag)) {
	case "true":
		return o.With(flag, o.Value(bound)).Without(bound)
	case "false":
		return o.Without(flag)
	}
	return o
}

// nullable returns a schema that allows null too. By 3.0.3, nullable has no effect
// without a type beside it. It is obeyed there all the same: an author who writes it
// beside allOf means null, and an API that does not take a null answers with an error.
func nullable(o mcp.Object) mcp.Object {
	kind := o.Text("type")
	if kind == "" || o.Has("allOf") || o.Has("anyOf") || o.Has("oneOf") || o.Has("not") {
		null := mcp.NewObject(mcp.Member{Name: "type", Value: mcp.String("null")})
		either := mcp.NewObject(mcp.Member{
			Name:  "anyOf",
			Value: mcp.Array([]mcp.RawJSON{o.Without("description").JSON(), null.JSON()}),
		})
		return either.With("description", o.Value("description"))
	}
	o = o.With("type", mcp.Array([]mcp.RawJSON{mcp.String(kind), mcp.String("null")}))
	values, ok := o.Value("enum").Elements()
	if !ok {
		return o
	}
	for _, value := range values {
		if value.IsNull() {
			return o
		}
	}
	return o.With("enum", mcp.Array(append(values, mcp.RawJSON("null"))))
}
