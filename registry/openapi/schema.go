package openapi

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

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
	dir   direction
	texts int                    // bytes that a description may have; maxDescription: any number
	at    *place                 // where the schema stands that is looked at, or what holds it
	defs  map[string]mcp.RawJSON // by name; nil while a definition is being made, so that recursion ends
	names map[*place]string      // of definitions, by where they stand in the document
	// what absent returns for what a reference leads to; nil while that is looked for
	absences map[*place][]string
	met      map[*place]bool // what references led to
	size     int             // bytes of all that they led to

	notes []string // for the operator: in what the tool differs from the document, each once
}

// sectionSchemas is the section of the components that has schemas.
const sectionSchemas = "schemas"

// note tells the operator something, once.
func (s *schemas) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(s.notes, text) {
		s.notes = append(s.notes, text)
	}
}

// of returns the schema that stands there, converted. A missing schema allows everything.
// description is that of the parameter or body that has the schema; it is used when the
// schema has none itself, and is never left out.
func (s *schemas) of(at *place, description string) (mcp.RawJSON, error) {
	converted := mcp.RawJSON("{}")
	if !at.value().IsNull() {
		var err error
		s.within(at, func() { converted, err = s.convert(at.raw) })
		if err != nil {
			return nil, err
		}
	}
	o, ok := mcp.ObjectOf(converted)
	if !ok || description == "" || o.Text("description") != "" {
		return converted, nil
	}
	text := s.text("description", mcp.String(description))
	if text == nil {
		text = mcp.String(mcp.Clip(description, leastText))
	}
	return o.With("description", text).JSON(), nil
}

// within calls do for what stands at a place.
func (s *schemas) within(at *place, do func()) {
	before := s.at
	s.at = at
	do()
	s.at = before
}

// convert converts one schema and those within it. A value that is no object (true and
// false are schemas too) stays as it is; when it is no schema, the catalogue refuses it.
func (s *schemas) convert(raw mcp.RawJSON) (mcp.RawJSON, error) { return s.convertPart(raw, nil) }

// convertPart is convert for what is part of another schema by allOf, in which absent are
// absent; nil: that was not looked for yet.
func (s *schemas) convertPart(raw mcp.RawJSON, absent []string) (mcp.RawJSON, error) {
	from, ok := mcp.ObjectOf(raw)
	if !ok {
		return slices.Clone(raw), nil // tools keep it, and not the document
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
		if s.from.old {
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
	if s.from.old && string(from.Value("nullable")) == "true" {
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
	// some generators write null and [] for what they do not say
	if (value.IsNull() || string(value) == "[]") && name != "const" && name != "default" {
		return nil, nil
	}
	switch name {
	case "description", "title", "examples", "$comment":
		return s.text(name, value), nil
	case "$ref", "nullable", "discriminator", "xml", "externalDocs", "example", "readOnly", "writeOnly",
		"$schema", "$id":
		return nil, nil
	case "properties":
		return s.named(value, s.hidden)
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

// hidden tells whether a property does not exist in this direction: it, or what it refers
// to, is readOnly in a request or writeOnly in an answer.
func (s *schemas) hidden(property mcp.RawJSON) bool {
	keyword := "readOnly"
	if s.dir == answer {
		keyword = "writeOnly"
	}
	o, _ := mcp.ObjectOf(property)
	ref, own := o.Text("$ref"), string(o.Value(keyword)) == "true"
	if ref == "" || own && !s.from.old {
		return own
	}
	to, err := s.find(ref)
	if err != nil || string(to.child(keyword).value()) == "true" {
		return err == nil // else refer says so
	}
	to, err = s.from.followed(to, sectionSchemas) // it may be a reference itself, as to a file
	return err == nil && string(to.child(keyword).value()) == "true"
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
	to, err := s.find(ref)
	if err != nil { // refer says so
		return nil
	}
	if _, known := s.absences[to]; !known {
		s.absences[to] = nil // for references that lead back here
		schema, _ := mcp.ObjectOf(to.raw)
		s.within(to, func() { s.absences[to] = s.absent(schema) })
	}
	return s.absences[to]
}

// find returns what a reference leads to in the schema that is looked at.
func (s *schemas) find(ref string) (*place, error) {
	to, err := s.from.find(s.at, ref, sectionSchemas)
	if err != nil {
		return nil, err
	}
	if !s.met[to] {
		s.met[to] = true
		s.size += len(to.raw)
	}
	if s.size > maxReferred {
		return nil, fmt.Errorf("it refers to more than %d MiB of the document", maxReferred>>20)
	}
	return to, nil
}

// refer returns what a reference becomes: a reference to a definition in $defs, which it
// makes unless it exists.
func (s *schemas) refer(ref string) (string, error) {
	to, err := s.find(ref)
	if err != nil {
		return "", err
	}
	name, known := s.names[to]
	if !known {
		name = s.newName(to)
		s.names[to], s.defs[name] = name, nil // for references to it from within itself
		if s.defs[name], err = s.of(to, ""); err != nil {
			return "", err
		}
	}
	return "#/$defs/" + name, nil
}

// escaped are the characters that references escape, or some readers of them may.
var escaped = regexp.MustCompile(`[^a-zA-Z0-9.-]`)

// newName returns a name for the definition of what stands at a place: that of the place,
// or of its file, as far as it needs no escaping in a reference.
func (s *schemas) newName(at *place) string {
	base := at.name
	if at.within == nil {
		base = strings.TrimSuffix(path.Base(base), path.Ext(base))
	}
	base = escaped.ReplaceAllString(base, "_")
	name := base
	for i := 0; ; i++ {
		if _, taken := s.defs[name]; !taken {
			return name
		}
		name = hashed(base, at.String()+strconv.Itoa(i))
	}
}

// says tells whether a type, as a schema has it, is of that kind or may be.
func says(kinds mcp.RawJSON, kind string) bool {
	several, _ := kinds.Elements()
	return slices.ContainsFunc(append(several, kinds), func(one mcp.RawJSON) bool { return one.Says(kind) })
}

// listsObjects tells whether a schema says that its values are lists of objects.
func (s *schemas) listsObjects(at *place) bool { return s.isObject(s.elementsOf(at)) }

// listsLists tells whether a schema says that its values are lists of lists alone.
func (s *schemas) listsLists(at *place) bool {
	one, err := s.from.followed(s.elementsOf(at), sectionSchemas)
	return err == nil && one.child("type").value().Says("array")
}

// elementsOf returns what a schema says of the elements of its lists, nil for nothing.
func (s *schemas) elementsOf(at *place) *place {
	at, _ = s.from.followed(at, sectionSchemas) // nil, of which nothing is said
	return at.child("items")
}

// isObject tells whether a schema says that its values are objects, itself or in a part
// of it by allOf.
func (s *schemas) isObject(at *place) bool {
	met := map[*place]bool{nil: true} // parts may lead back to each other
	var is func(at *place) bool
	is = func(at *place) bool {
		at, err := s.from.followed(at, sectionSchemas)
		if err != nil || met[at] {
			return false
		}
		met[at] = true
		return says(at.child("type").value(), "object") || len(at.child("properties").names()) > 0 ||
			slices.ContainsFunc(at.child("allOf").items(), is)
	}
	return is(at)
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
	if !ok || slices.ContainsFunc(values, mcp.RawJSON.IsNull) {
		return o
	}
	return o.With("enum", mcp.Array(append(values, mcp.RawJSON("null"))))
}
