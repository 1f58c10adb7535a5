package openapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// direction is what a schema is for: a property that is only read is no argument, one that is only written no answer.
type direction int

const (
	request direction = iota
	answer
)

// schemas turns schemas of one document into JSON Schema 2020-12 for one tool, and collects the components that they
// refer to as its $defs.
type schemas struct {
	from  *document
	doc   *openapi3.T // of from, what the operation needs
	old   bool        // 3.0, whose schemas are a dialect of their own
	way   direction
	texts int                    // bytes that a description may have
	defs  map[string]mcp.RawJSON // nil while one is being made

	notes    []string // for the operator: what the tool has otherwise than the document, each once
	loosened bool     // a schema accepts more than in the document
	loose    bool     // so nothing may be said that this would make stricter, such as not and oneOf
}

func (s *schemas) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(s.notes, text) {
		s.notes = append(s.notes, text)
	}
}

func newSchemas(o *loaded, way direction) *schemas {
	return &schemas{from: o.from, doc: o.doc, old: o.doc.IsOpenAPI30(), way: way, defs: map[string]mcp.RawJSON{}}
}

const components = "#/components/schemas/"

// of returns the schema as JSON Schema; one that is absent allows everything. The description is that of what has the
// schema, for one that has none itself.
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
	return described(converted, description), nil // of a reference in 3.0, beside which nothing counts
}

// described returns the schema with a description, its own if it has one.
func described(raw mcp.RawJSON, description string) mcp.RawJSON {
	o, ok := mcp.ObjectOf(raw)
	if !ok || description == "" || o.Has("description") {
		return raw
	}
	return o.With("description", mcp.String(description)).JSON()
}

// convert turns one schema. What is no schema stays as it is, for the catalogue to refuse.
func (s *schemas) convert(raw mcp.RawJSON) (mcp.RawJSON, error) {
	from, ok := mcp.ObjectOf(raw)
	if !ok {
		return raw, nil
	}
	from = s.readable(from)
	var to mcp.Object
	if ref := from.Text("$ref"); ref != "" {
		local, err := s.refer(ref)
		if err != nil {
			return nil, err
		}
		to = to.With("$ref", mcp.String(local))
		if s.old { // beside a reference nothing counts: https://spec.openapis.org/oas/v3.0.4.html#reference-object
			return to.JSON(), nil
		}
	}
	for name, value := range from.Members {
		if s.loose {
			name = looser(from, name)
		}
		value, err := s.keyword(from, name, value)
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

// readable leaves out the patterns that the gateway cannot read, and tells the model what they are instead: the API
// judges by them, and the other tools and the rest of this one are not lost.
func (s *schemas) readable(from mcp.Object) mcp.Object {
	if pattern, ok := from.Value("pattern").Text(); ok {
		if err := schema.CheckPattern(pattern); err != nil {
			s.note("the pattern %q is left out: %v", cut(pattern, maxPatternText), err)
			s.loosened = true
			text := strings.TrimSpace(from.Text("description") + "\n\nMust match the regular expression " + cut(pattern, maxPatternText))
			from = from.Without("pattern").With("description", mcp.String(text))
		}
	}
	named := from.Object("patternProperties")
	for pattern := range named.Members {
		if err := schema.CheckPattern(pattern); err != nil {
			s.note("the pattern %q of properties' names is left out: %v", cut(pattern, maxPatternText), err)
			s.loosened = true
			// Without it, the names that fit it would be additional ones, and refused.
			named, from = named.Without(pattern), from.Without("additionalProperties", "unevaluatedProperties")
			from = from.With("patternProperties", named.JSON())
		}
	}
	return from
}

const maxPatternText = 200 // bytes of a pattern that are told

// text returns an annotation, shortened when descriptions are, and then without what only illustrates.
func (s *schemas) text(name string, value mcp.RawJSON) mcp.RawJSON {
	text, ok := value.Text()
	switch {
	case s.texts >= maxDescription:
		return value
	case !ok || s.texts == 0 || name == "examples" || name == "$comment":
		return nil
	}
	return mcp.String(cut(text, s.texts))
}

// looser returns what becomes of a keyword under which a schema that accepts more would refuse more, "" for nothing.
func looser(from mcp.Object, name string) string {
	switch name {
	case "not", "if", "then", "else", "maxContains", "unevaluatedProperties", "unevaluatedItems":
		return ""
	case "oneOf":
		if from.Has("anyOf") {
			return ""
		}
		return "anyOf"
	}
	return name
}

// keyword turns the value of one keyword; nil leaves it out.
func (s *schemas) keyword(from mcp.Object, name string, value mcp.RawJSON) (mcp.RawJSON, error) {
	switch name {
	case "description", "title", "examples", "$comment":
		return s.text(name, value), nil
	case "", "$ref", "nullable", "discriminator", "xml", "externalDocs", "example", "readOnly", "writeOnly", "$schema", "$id":
		return nil, nil
	case "properties":
		return s.named(value, func(property mcp.RawJSON) bool { return s.hidden(property) })
	case "patternProperties", "dependentSchemas", "$defs", "definitions":
		return s.named(value, func(mcp.RawJSON) bool { return false })
	case "required":
		return s.required(value, from.Object("properties")), nil
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return s.list(value)
	case "items", "not", "if", "then", "else", "contains", "propertyNames", "additionalProperties",
		"unevaluatedProperties", "unevaluatedItems":
		return s.convert(value)
	}
	if strings.HasPrefix(name, "x-") { // x-mcp-header has a meaning here that no document may give
		return nil, nil
	}
	return value, nil
}

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

func (s *schemas) list(raw mcp.RawJSON) (mcp.RawJSON, error) {
	elements, ok := raw.Elements()
	if !ok {
		return raw, nil
	}
	for i := range elements {
		var err error
		if elements[i], err = s.convert(elements[i]); err != nil {
			return nil, err
		}
	}
	return mcp.Array(elements), nil
}

// required leaves out the properties that are hidden: they are required in the other direction only.
func (s *schemas) required(raw mcp.RawJSON, properties mcp.Object) mcp.RawJSON {
	elements, ok := raw.Elements()
	if !ok {
		return raw
	}
	kept := elements[:0]
	for _, element := range elements {
		name, _ := element.Text()
		if !s.hidden(properties.Value(name)) {
			kept = append(kept, element)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return mcp.Array(kept)
}

// hidden tells whether a property is not for this direction, by its own word or by that of the component it refers to.
func (s *schemas) hidden(property mcp.RawJSON) bool {
	o, _ := mcp.ObjectOf(property)
	word := "readOnly"
	if s.way == answer {
		word = "writeOnly"
	}
	if string(o.Value(word)) == "true" && (!s.old || !o.Has("$ref")) {
		return true
	}
	name, local := strings.CutPrefix(o.Text("$ref"), components)
	component := s.component(name)
	if !local || component == nil || component.Value == nil {
		return false
	}
	return s.way == request && component.Value.ReadOnly || s.way == answer && component.Value.WriteOnly
}

func (s *schemas) component(name string) *openapi3.SchemaRef {
	if s.doc.Components == nil {
		return nil
	}
	return s.doc.Components.Schemas[name]
}

// refer returns what a reference becomes: one to a component leads to the definition of that name in $defs.
func (s *schemas) refer(ref string) (string, error) {
	name, local := strings.CutPrefix(ref, components)
	component := s.component(name)
	if !local || component == nil || !plainName(name) {
		return s.referElsewhere(ref)
	}
	if _, known := s.defs[name]; !known {
		s.defs[name] = nil
		definition, err := s.of(component, "")
		if err != nil {
			return "", err
		}
		s.defs[name] = definition
	}
	return "#/$defs/" + name, nil
}

// referElsewhere makes a definition of what a reference to another place leads to, such as into a component or a path.
func (s *schemas) referElsewhere(ref string) (string, error) {
	name := hashed("at", ref)
	if _, known := s.defs[name]; !known {
		s.defs[name] = nil
		target, err := s.from.find(ref)
		if err != nil {
			return "", err
		}
		raw, err := mcp.ParseRaw(slices.Clone(target))
		if err != nil {
			return "", fmt.Errorf("$ref %q: %w", cut(ref, maxReason), err)
		}
		definition, err := s.convert(raw)
		if err != nil {
			return "", err
		}
		s.defs[name] = definition
	}
	return "#/$defs/" + name, nil
}

// plainName tells whether a component has a name that needs no escaping.
// https://spec.openapis.org/oas/v3.1.1.html#components-object
func plainName(name string) bool {
	return strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
}

// exclusive turns the form of 3.0, a flag beside the bound, into that of JSON Schema, a bound of its own.
func exclusive(o mcp.Object, bound, flag string) mcp.Object {
	switch string(o.Value(flag)) {
	case "true":
		return o.With(flag, o.Value(bound)).Without(bound)
	case "false":
		return o.Without(flag)
	}
	return o
}

// nullable allows null too. With no type beside it, 3.0.3 gives nullable no effect; but who writes it beside allOf means
// null, and an API that gets one it did not mean answers with an error.
func nullable(o mcp.Object) mcp.Object {
	kind := o.Text("type")
	if kind == "" || o.Has("allOf") || o.Has("anyOf") || o.Has("oneOf") || o.Has("not") {
		null := mcp.NewObject(mcp.Member{Name: "type", Value: mcp.String("null")})
		either := mcp.NewObject(mcp.Member{Name: "anyOf", Value: mcp.Array([]mcp.RawJSON{o.Without("description").JSON(), null.JSON()})})
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
