package openapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// newOffer makes the tool of an operation. The error says why there can be none.
func newOffer(cfg *Config, doc *document, t *target, from *operation) (registry.Offer, error) {
	hints, ok := annotations(from.method)
	if !ok && from.fault == nil {
		return registry.Offer{}, fmt.Errorf("the method %s is not served", from.method)
	}
	o, err := doc.load(from, cfg.OutputSchemas)
	if err != nil {
		return registry.Offer{}, err
	}
	c := &caller{target: t, method: o.method}
	defs := newSchemas(o, request)
	if err := c.readParameters(o, defs); err != nil {
		return registry.Offer{}, err
	}
	if c.body, err = newBody(o.op.RequestBody, defs); err != nil {
		return registry.Offer{}, err
	}
	if c.body != nil && o.method == http.MethodGet {
		return registry.Offer{}, fmt.Errorf("a body with %s", o.method)
	}
	if err := nameArguments(c.arguments, c.body != nil); err != nil {
		return registry.Offer{}, err
	}
	if c.segments, err = template(o.path, c.arguments); err != nil {
		return registry.Offer{}, err
	}
	definition := mcp.NewObject(
		mcp.Member{Name: "name", Value: mcp.String(o.name)},
		mcp.Member{Name: "description", Value: mcp.String(o.description())},
		mcp.Member{Name: "inputSchema", Value: c.inputSchema(defs)},
		mcp.Member{Name: "annotations", Value: hints},
	)
	if cfg.OutputSchemas {
		output, err := o.outputSchema()
		if err != nil {
			return registry.Offer{}, err
		}
		definition = definition.With("outputSchema", output)
	}
	definition, _ = sanitize.Definition(definition) // who wrote the document wrote it for people
	return registry.Offer{Definition: definition, Timeout: cfg.Timeout, Call: c.call}, nil
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
	schema := mcp.NewObject(
		mcp.Member{Name: "type", Value: mcp.String("object")},
		mcp.Member{Name: "properties", Value: mcp.NewObject(properties...).JSON()},
		mcp.Member{Name: "additionalProperties", Value: mcp.Bool(false)},
	)
	if len(required) > 0 {
		schema = schema.With("required", mcp.Array(required))
	}
	return schema.With("$defs", s.definitions()).JSON()
}

// definitions returns the components that were referred to, nil when there are none.
func (s *schemas) definitions() mcp.RawJSON {
	if len(s.defs) == 0 {
		return nil
	}
	members := make([]mcp.Member, 0, len(s.defs))
	for _, name := range slices.Sorted(maps.Keys(s.defs)) {
		members = append(members, mcp.Member{Name: name, Value: s.defs[name]})
	}
	return mcp.NewObject(members...).JSON()
}

// outputSchema returns the schema of the one success that is documented, nil when there are several or it is no JSON
// object: then one answer or another would break it.
func (o *loaded) outputSchema() (mcp.RawJSON, error) {
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
	s := newSchemas(o, answer)
	raw, err := s.of(media.Schema)
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
		mcp.Member{Name: "$defs", Value: s.definitions()},
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
