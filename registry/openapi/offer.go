package openapi

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// made is the tool of an operation as the catalogue takes it.
type made struct {
	offer    registry.Offer
	notes    []string // in what the tool differs from the document
	released string   // as in registry.Admission
}

// newOffer makes the tool of an operation. The error says why the operation cannot become
// a tool.
func newOffer(cfg *Config, doc *document, t *target, o *operation) (made, error) {
	if o.fault != nil {
		return made{}, o.fault
	}
	hints, ok := annotations[o.method]
	if !ok {
		return made{}, fmt.Errorf("the method %s is not served", o.method)
	}
	m := &maker{doc: doc, operation: o, target: t, hints: hints, outputSchemas: cfg.OutputSchemas}
	if err := o.at.read(&m.said); err != nil {
		return made{}, err
	}
	fitting, err := m.fitting()
	if err != nil {
		return made{}, err
	}
	if err := strictjson.Check(fitting.definition.JSON()); err != nil {
		return made{}, fmt.Errorf("its definition: %w", err)
	}
	admitted, err := registry.Admit(fitting.definition, cfg.Released, false)
	if err != nil {
		return made{}, err
	}
	fitting.schema = admitted.Definition.Value("inputSchema")
	return made{
		offer: registry.Offer{Definition: admitted.Definition, Timeout: cfg.Timeout, Call: fitting.run},
		notes: fitting.notes(), released: admitted.Released,
	}, nil
}

// maker makes the tool of one operation. When a try shows that the tool is too large, it
// makes the tool again from the beginning, with other settings.
type maker struct {
	doc *document
	*operation
	said          struct{ Summary, Description string } // of the operation
	target        *target
	hints         mcp.RawJSON // the annotations of the tool
	outputSchemas bool
	texts         int // bytes that a description within a schema may have; maxDescription: any number
}

// tool is a tool that a maker made, with what is needed to take something out of it
// again.
type tool struct {
	*caller

	input, output *schemas // output is nil when there is no output schema
	definition    mcp.Object
}

// notes returns what the operator is told about both schemas.
func (t *tool) notes() []string {
	if t.output == nil {
		return t.input.notes
	}
	return slices.Concat(t.input.notes, t.output.notes)
}

// make makes the tool with the maker's present settings.
func (m *maker) make() (*tool, error) {
	t := &tool{caller: &caller{target: m.target, method: m.method}, input: m.schemas(request)}
	if err := t.readParameters(m.operation, t.input); err != nil {
		return nil, err
	}
	servers := cmp.Or(m.at.child("servers"), m.item.child("servers"))
	if len(servers.items()) > 0 && !bytes.Equal(servers.raw, m.doc.root.child("servers").value()) {
		t.input.note(
			"the servers that the document names for it alone are not asked: its requests go where all go")
	}
	var err error
	if t.body, err = newBody(m.operation, t.input); err != nil {
		return nil, err
	}
	if err := nameArguments(t.arguments, t.body != nil); err != nil {
		return nil, err
	}
	if t.segments, err = template(m.path, t.arguments); err != nil {
		return nil, err
	}
	return t, m.define(t)
}

// define makes the definition of the tool from its arguments and body. It is called again
// when some were taken out.
func (m *maker) define(t *tool) error {
	t.definition = mcp.NewObject(
		mcp.Member{Name: "name", Value: mcp.String(m.name)},
		mcp.Member{Name: "description", Value: mcp.String(m.description())},
		mcp.Member{Name: "inputSchema", Value: t.inputSchema(t.input)},
		mcp.Member{Name: "annotations", Value: m.hints},
	)
	if m.outputSchemas {
		t.output = m.schemas(answer)
		output, err := outputSchema(m.operation, t.output)
		if err != nil {
			return err
		}
		t.definition = t.definition.With("outputSchema", output)
	}
	return nil
}

// schemas returns a converter of schemas with the maker's settings.
func (m *maker) schemas(dir direction) *schemas {
	return &schemas{
		from: m.doc, dir: dir, texts: m.texts, defs: map[string]mcp.RawJSON{}, names: map[*place]string{},
		absences: map[*place][]string{}, met: map[*place]bool{},
	}
}

// annotations are those of tools by method, as far as HTTP defines it. HTTP does not say
// whether a POST destroys something, so destructiveHint is absent there. Other methods
// make no tool.
// https://www.rfc-editor.org/rfc/rfc9110#section-9.2
var annotations = map[string]mcp.RawJSON{
	http.MethodGet:    mcp.RawJSON(`{"readOnlyHint":true,"destructiveHint":false,` + idempotent),
	http.MethodPut:    mcp.RawJSON(`{"readOnlyHint":false,"destructiveHint":true,` + idempotent),
	http.MethodDelete: mcp.RawJSON(`{"readOnlyHint":false,"destructiveHint":true,` + idempotent),
	http.MethodPatch:  mcp.RawJSON(`{"readOnlyHint":false,"destructiveHint":true,` + additive),
	http.MethodPost:   mcp.RawJSON(`{"readOnlyHint":false,` + additive),
}

// The end of annotations: twice the same call does what one does, or it does not.
const (
	idempotent = `"idempotentHint":true,"openWorldHint":true}`
	additive   = `"idempotentHint":false,"openWorldHint":true}`
)

// description returns the description of the tool: summary and description of the
// operation, or method and path when it has neither.
func (m *maker) description() string {
	summary, text := strings.TrimSpace(m.said.Summary), strings.TrimSpace(m.said.Description)
	switch {
	case summary == "" && text == "":
		text = m.method + " " + m.path
	case text == "":
		text = summary
	case summary != "" && !strings.HasPrefix(text, summary):
		text = summary + "\n\n" + text
	}
	return mcp.Clip(text, maxDescription)
}

// readParameters makes an argument of each parameter that a caller is to set.
func (c *caller) readParameters(o *operation, s *schemas) error {
	parameters, err := s.from.parameters(o)
	if err != nil {
		return err
	}
	for _, p := range parameters {
		a, err := newArgument(p, c.own, s)
		if err != nil {
			return err
		}
		if a != nil {
			c.arguments = append(c.arguments, a)
		}
	}
	return nil
}

// inputSchema returns the schema of the tool's arguments: an object that has a property
// for each argument, and body for the body.
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

// outputSchema returns the schema of the answer when exactly one success is documented
// and it is a JSON object, and otherwise nil: an answer that no schema describes would
// break the one that was declared, and become an error.
func outputSchema(o *operation, s *schemas) (mcp.RawJSON, error) {
	var success *place
	responses := o.at.child("responses")
	for _, status := range responses.names() {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		if success != nil {
			return nil, nil
		}
		success = responses.child(status)
	}
	success, err := s.from.followed(success, "responses")
	content := success.child("content")
	schema := content.child(typeJSON).child("schema")
	if err != nil || schema == nil || len(content.names()) > 1 {
		return nil, err
	}
	raw, err := s.of(schema, "")
	if err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	if !s.isObject(schema) {
		return nil, nil
	}
	// Revisions before 2026-07-28 require "type": "object" at the root, where the schema
	// may have a $ref.
	return mcp.NewObject(
		mcp.Member{Name: "type", Value: mcp.String("object")},
		mcp.Member{Name: "allOf", Value: mcp.Array([]mcp.RawJSON{raw})},
		mcp.Member{Name: "$defs", Value: s.definitions(raw)},
	).JSON(), nil
}
