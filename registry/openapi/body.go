package openapi

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// body says how the argument body becomes the body of a request.
type body struct {
	mediaType string // as in the document, with its parameters, or JSON; sent as Content-Type
	form      bool   // written as a form, otherwise as JSON
	// of a form: the properties that the document names, by name
	fields   map[string]*argument
	required bool
	schema   mcp.RawJSON
}

// newBody returns the body of an operation, nil when it takes none. Of several media
// types it chooses the one with the highest rank, and of equal ones the first by name, so
// that the choice is always the same.
func newBody(o *loaded, s *schemas) (*body, error) {
	ref := o.op.RequestBody
	if ref == nil || ref.Value == nil || len(ref.Value.Content) == 0 {
		return nil, nil
	}
	var chosen string
	for mediaType := range ref.Value.Content {
		if rank(mediaType) > rank(chosen) || rank(mediaType) == rank(chosen) && mediaType < chosen {
			chosen = mediaType
		}
	}
	media := ref.Value.Content[chosen]
	switch {
	// its content has no meaning: https://www.rfc-editor.org/rfc/rfc9110#section-9.3.1
	case o.method == http.MethodGet:
		return nil, withoutBody(ref.Value, media, s)
	case rank(chosen) == rankNone:
		return nil, errors.New("its body is neither JSON nor a form")
	}
	b := &body{mediaType: chosen, form: rank(chosen) == rankForm, required: ref.Value.Required}
	if rank(chosen) == rankRange {
		b.mediaType = typeJSON
	}
	if media == nil {
		media = openapi3.NewMediaType()
	}
	var err error
	if b.schema, err = s.of(media.Schema, ref.Value.Description); err != nil {
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
func withoutBody(b *openapi3.RequestBody, media *openapi3.MediaType, s *schemas) error {
	if b.Required {
		return errors.New("it requires a body with GET")
	}
	if media == nil || media.Schema == nil || media.Schema.Value == nil ||
		len(media.Schema.Value.Properties) > 0 {
		s.note("its body is left out: GET has none")
	}
	return nil
}

// encode reads how the properties of a form are written. A property that cannot be
// written as the document says is left out of the schema, or is an error when it is
// required.
// https://spec.openapis.org/oas/v3.1.1.html#encoding-object
func (b *body) encode(media *openapi3.MediaType, s *schemas) error {
	b.fields = map[string]*argument{}
	var properties openapi3.Schemas
	if media.Schema != nil && media.Schema.Value != nil {
		properties = media.Schema.Value.Properties
	}
	for name, schema := range properties {
		b.fields[name] = plainField(name, schema)
	}
	for _, name := range slices.Sorted(maps.Keys(media.Encoding)) {
		encoding := media.Encoding[name]
		if encoding == nil {
			continue
		}
		field, problem := newField(name, encoding, properties[name])
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
func newField(name string, e *openapi3.Encoding, schema *openapi3.SchemaRef) (field *argument,
	problem string,
) {
	field = plainField(name, schema)
	if e.Style != "" || e.Explode != nil || e.AllowReserved {
		field.objects, field.reserved = false, e.AllowReserved
		return field, field.readStyle(e.Style, e.Explode, schema, "fields")
	}
	var kinds []string
	for kind := range strings.SplitSeq(e.ContentType, ",") {
		if kind = strings.TrimSpace(kind); kind != "" {
			kinds = append(kinds, kind)
		}
	}
	switch {
	case slices.ContainsFunc(kinds, func(kind string) bool { return rank(kind) >= rankOther }):
		field.asJSON = true
	case len(kinds) > 0 && (isObject(schema) || listsObjects(schema)):
		return nil, fmt.Sprintf("it is or has an object that would have to be written as %q",
			mcp.Clip(e.ContentType, maxReason))
	case len(kinds) > 0:
		field.objects, field.elements = false, false
	}
	return field, ""
}

// plainField returns how a property of a form is written by default: a text as it is,
// each element of a list as a field of its own, and an object as JSON.
func plainField(name string, schema *openapi3.SchemaRef) *argument {
	return &argument{
		name: "body." + name, parameter: name, location: openapi3.ParameterInQuery, style: "form",
		explode: true,
		objects: true, elements: true, integers: saysIntegers(schema),
	}
}

// formTexts writes an object as a form. Members that are null are not written. The error
// is a *usageError.
func (b *body) formTexts(raw mcp.RawJSON) (string, error) {
	o, ok := mcp.ObjectOf(raw)
	if !ok {
		return "", usagef("arguments.body must be an object")
	}
	var pieces []string
	for name, member := range o.Members {
		if member.IsNull() {
			continue
		}
		field := b.fields[name]
		if field == nil {
			field = plainField(name, nil)
		}
		more, err := field.queryTexts(member)
		if err != nil {
			return "", err
		}
		pieces = append(pieces, more...)
	}
	return strings.Join(pieces, "&"), nil
}
