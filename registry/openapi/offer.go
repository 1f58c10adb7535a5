package openapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// newOffer makes the tool of an operation. The notes say what it has otherwise than the document; the error says why
// there can be none.
func newOffer(cfg *Config, doc *document, t *target, from *operation) (offer registry.Offer, notes []string, err error) {
	defer contain(&err)
	hints, ok := annotations(from.method)
	if !ok && from.fault == nil {
		return registry.Offer{}, nil, fmt.Errorf("the method %s is not served", from.method)
	}
	o, err := doc.load(from, cfg.OutputSchemas)
	if err != nil {
		return registry.Offer{}, nil, err
	}
	m := &maker{o: o, target: t, hints: hints, outputSchemas: cfg.OutputSchemas}
	made, err := m.fitting()
	if err != nil {
		return registry.Offer{}, nil, err
	}
	return registry.Offer{Definition: made.definition, Timeout: cfg.Timeout, Call: made.call}, made.notes(), nil
}

// maker makes the tool of one operation, with other settings again where the first try shows that it takes them.
type maker struct {
	o             *loaded
	target        *target
	hints         mcp.RawJSON
	outputSchemas bool
	texts         int  // bytes that a description within a schema may have
	loose         bool // schemas say nothing that would become stricter where another schema accepts more
}

// tool is one that was made.
type tool struct {
	*caller

	input, output *schemas // output is nil when there is none
	definition    mcp.Object
}

func (t *tool) loosened() bool { return t.input.loosened || t.output != nil && t.output.loosened }

func (t *tool) notes() []string {
	if t.output == nil {
		return t.input.notes
	}
	return slices.Concat(t.input.notes, t.output.notes)
}

func (m *maker) make() (*tool, error) {
	t := &tool{caller: &caller{target: m.target, method: m.o.method}, input: m.schemas(request)}
	if err := t.readParameters(m.o, t.input); err != nil {
		return nil, err
	}
	var err error
	if t.body, err = newBody(m.o, t.input); err != nil {
		return nil, err
	}
	if err := nameArguments(t.arguments, t.body != nil); err != nil {
		return nil, err
	}
	if t.segments, err = template(m.o.path, t.arguments); err != nil {
		return nil, err
	}
	return t, m.define(t)
}

// define makes the definition of what was read.
func (m *maker) define(t *tool) error {
	t.definition = mcp.NewObject(
		mcp.Member{Name: "name", Value: mcp.String(m.o.name)},
		mcp.Member{Name: "description", Value: mcp.String(m.o.description())},
		mcp.Member{Name: "inputSchema", Value: t.inputSchema(t.input)},
		mcp.Member{Name: "annotations", Value: m.hints},
	)
	if m.outputSchemas {
		t.output = m.schemas(answer)
		output, err := m.o.outputSchema(t.output)
		if err != nil {
			return err
		}
		t.definition = t.definition.With("outputSchema", output)
	}
	t.definition, _ = sanitize.Definition(t.definition) // who wrote the document wrote it for people
	return nil
}

func (m *maker) schemas(way direction) *schemas {
	s := newSchemas(m.o, way)
	s.loose, s.texts = m.loose, m.texts
	return s
}

// annotations says what HTTP says of a method. Whether a POST destroys something it does not say, so neither is said.
// https://www.rfc-editor.org/rfc/rfc9110#section-9.2
func annotations(method string) (mcp.RawJSON, bool) {
	switch method {
	case http.MethodGet:
		return mcp.RawJSON(`{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":true}`), true
	case http.MethodPut, http.MethodDelete:
		return mcp.RawJSON(`{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":true}`), true
	case http.MethodPatch:
		return mcp.RawJSON(`{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}`), true
	case http.MethodPost:
		return mcp.RawJSON(`{"readOnlyHint":false,"idempotentHint":false,"openWorldHint":true}`), true
	}
	return nil, false
}

// maxDescription bounds what a document says of one operation, in bytes.
const maxDescription = 8 << 10

func (o *loaded) description() string {
	summary, text := strings.TrimSpace(o.op.Summary), strings.TrimSpace(o.op.Description)
	switch {
	case summary == "" && text == "":
		text = o.method + " " + o.path
	case text == "":
		text = summary
	case summary != "" && !strings.HasPrefix(text, summary):
		text = summary + "\n\n" + text
	}
	return cut(text, maxDescription)
}

func (c *caller) readParameters(o *loaded, s *schemas) error {
	parameters, err := o.all()
	if err != nil {
		return err
	}
	for _, p := range parameters {
		a, err := newArgument(p, c.header, s)
		if err != nil {
			return err
		}
		if a != nil {
			c.arguments = append(c.arguments, a)
		}
	}
	return nil
}

// inputSchema puts the parameters by their names, and the body as body, into one object.
func (c *caller) inputSchema(s *schemas) mcp.RawJSON {
	var properties []mcp.Member
	var required []mcp.RawJSON
	for _, a := range c.arguments {
		properties = append(properties, mcp.Member{Name: a.name, Value: a.schema})
		if a.required {
			required = append(required, mcp.String(a.name))
		}
	}
	if c.body != nil {
		properties = append(properties, mcp.Member{Name: "body", Value: c.body.schema})
		if c.body.required {
			required = append(required, mcp.String("body"))
		}
	}
	all := mcp.NewObject(properties...).JSON()
	schema := mcp.NewObject(
		mcp.Member{Name: "type", Value: mcp.String("object")},
		mcp.Member{Name: "properties", Value: all},
		mcp.Member{Name: "additionalProperties", Value: mcp.Bool(false)},
	)
	if len(required) > 0 {
		schema = schema.With("required", mcp.Array(required))
	}
	return schema.With("$defs", s.definitions(all)).JSON()
}

// outputSchema returns the schema of the one success that is documented, nil when there are several or it is no JSON
// object: then one answer or another would break it.
func (o *loaded) outputSchema(s *schemas) (mcp.RawJSON, error) {
	var success *openapi3.ResponseRef
	responses := o.op.Responses.Map()
	for status, response := range responses {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		if success != nil {
			return nil, nil
		}
		success = response
	}
	if success == nil || success.Value == nil || responses["default"] != nil && len(responses) == 1 {
		return nil, nil
	}
	media := success.Value.Content[typeJSON]
	if media == nil || len(success.Value.Content) > 1 || !isObject(media.Schema) {
		return nil, nil
	}
	raw, err := s.of(media.Schema, "")
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	schema, ok := mcp.ObjectOf(raw)
	if !ok {
		return nil, nil
	}
	// Revisions before 2026-07-28 want type: object at the root.
	return mcp.NewObject(
		mcp.Member{Name: "type", Value: mcp.String("object")},
		mcp.Member{Name: "allOf", Value: mcp.Array([]mcp.RawJSON{schema.JSON()})},
		mcp.Member{Name: "$defs", Value: s.definitions(raw)},
	).JSON(), nil
}

// call serves one tools/call.
func (c *caller) call(ctx context.Context, call *registry.Call) (mcp.Object, error) {
	result, err := c.run(ctx, call.Params.Object("arguments"))
	if usage, ok := asUsage(err); ok {
		return mcp.ToolError(usage.text), nil
	}
	return result, err
}
