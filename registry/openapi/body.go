package openapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// body says how the argument body becomes the body of a request.
type body struct {
	mediaType string // as in the document, with its parameters, or JSON; sent as Content-Type
	form      bool   // written as a form, otherwise as JSON
	// of a form: the properties of which the document says how they are written, by name
	fields   map[string]*argument
	required bool
	schema   mcp.RawJSON
}

// newBody returns the body of an operation, nil when it takes none. Of several media
// types it chooses the one with the highest rank, and of equal ones the first by name, so
// that the choice is always the same.
func newBody(o *operation, s *schemas) (*body, error) {
	at, err := s.from.followed(o.at.child("requestBody"), "requestBodies")
	content := at.child("content")
	kinds := content.names()
	if err != nil || len(kinds) == 0 {
		return nil, err
	}
	var said struct {
		Description string
		Required    bool
	}
	if err := at.read(&said); err != nil {
		return nil, err
	}
	chosen := slices.MaxFunc(kinds, func(a, b string) int { return rank(a) - rank(b) })
	media := content.child(chosen)
	switch {
	// its content has no meaning: https://www.rfc-editor.org/rfc/rfc9110#section-9.3.1
	case o.method == http.MethodGet:
		return nil, withoutBody(said.Required, media.child("schema"), s)
	case rank(chosen) == rankNone:
		return nil, errors.New("its body is neither JSON nor a form")
	}
	b := &body{mediaType: chosen, form: rank(chosen) == rankForm, required: said.Required}
	if rank(chosen) == rankRange {
		b.mediaType = typeJSON
	}
	if b.schema, err = s.of(media.child("schema"), said.Description); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	if b.form {
		err = b.encode(media, s)
	}
	return b, err
}

// withoutBody leaves out the body of a GET. It notes that unless the schema of the body
// has no properties: some documents give every operation such a body, and there is
// nothing to miss in it.
func withoutBody(required bool, schema *place, s *schemas) error {
	if required {
		return errors.New("it requires a body with GET")
	}
	said, _ := s.from.followed(schema, sectionSchemas)
	if said == nil || len(said.child("properties").names()) > 0 {
		s.note("its body is left out: GET has none")
	}
	return nil
}

// encode reads how the properties of a form are written. A property that cannot be
// written as the document says is left out of the schema, or is an error when it is
// required.
// https://spec.openapis.org/oas/v3.1.1.html#encoding-object
func (b *body) encode(media *place, s *schemas) error {
	b.fields = map[string]*argument{}
	schema, _ := s.from.followed(media.child("schema"), sectionSchemas) // it was followed before
	properties, encodings := schema.child("properties"), media.child("encoding")
	for _, name := range encodings.names() {
		field, problem := newField(name, encodings.child(name), properties.child(name), s)
		if problem == "" {
			b.fields[name] = field
			continue
		}
		whole, ok := s.opened(b.schema)
		if !ok || requires(whole, name) {
			return fmt.Errorf("the property %q of its body cannot be left out, but %s", name, problem)
		}
		b.schema = withoutProperty(whole, name)
		s.note("the input %q is left out: %s", "body."+name, problem)
	}
	return nil
}

// newField returns how a property of a form is written, or the problem why it cannot be.
// As the specification has it, a content type is ignored when there is a style, explode
// or allowReserved.
func newField(name string, encoding, schema *place, s *schemas) (field *argument, problem string) {
	var said struct {
		ContentType string
		style
	}
	if err := encoding.read(&said); err != nil {
		return nil, err.Error()
	}
	field = plainField(name)
	if said.style != (style{}) {
		field.objects, field.reserved = false, said.AllowReserved
		return field, field.readStyle(said.style, schema, s, "fields")
	}
	var kinds []string
	for kind := range strings.SplitSeq(said.ContentType, ",") {
		if kind = strings.TrimSpace(kind); kind != "" {
			kinds = append(kinds, kind)
		}
	}
	switch {
	case slices.ContainsFunc(kinds, func(kind string) bool { return rank(kind) >= rankOther }):
		field.asJSON = true
	case len(kinds) > 0 && (s.isObject(schema) || s.listsObjects(schema)):
		return nil, fmt.Sprintf("it is or has an object that would have to be written as %q",
			mcp.Clip(said.ContentType, maxReason))
	case len(kinds) > 0:
		field.objects, field.elements = false, false
	}
	return field, ""
}

// plainField returns how a property of a form is written by default: a text as it is,
// each element of a list as a field of its own, and an object as JSON.
func plainField(name string) *argument {
	return &argument{
		name: "body." + name, parameter: name, location: "query", style: "form", explode: true,
		objects: true, elements: true,
	}
}

// formTexts writes an object as a form. Members that are null are not written. The error
// is a *registry.UsageError.
func (b *body) formTexts(raw mcp.RawJSON) (string, error) {
	o, ok := mcp.ObjectOf(raw)
	if !ok {
		return "", registry.Usagef("arguments.body must be an object")
	}
	var f fields
	for name, member := range o.Members {
		if member.IsNull() {
			continue
		}
		field := b.fields[name]
		if field == nil {
			field = plainField(name)
		}
		if err := field.addTo(&f, member); err != nil {
			return "", err
		}
	}
	return f.String(), nil
}
