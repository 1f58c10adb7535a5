package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// extract is what one operation needs of its document: the material for the small
// document that the library reads.
type extract struct {
	operation *operation
	members   map[string]json.RawMessage // of the operation, without those that are not served
	parts     []*part                    // what it refers to, directly or through other parts, each once
	faults    []referenceError           // references that lead nowhere
	wrong     []referenceError           // references to a component of another kind than belongs there
}

// needs collects an operation and all parts that it refers to, directly or through other
// parts. It leaves out what is not served, such as callbacks, and answers unless they are
// wanted, so that no fault there costs the operation. References that lead nowhere are
// collected as well; the error is only that the parts are too large together.
func (d *document) needs(o *operation, answers bool) (*extract, error) {
	e := &extract{operation: o, members: map[string]json.RawMessage{"responses": json.RawMessage("{}")}}
	sections := []string{"operationId", "summary", "description", "parameters", "requestBody"}
	if answers {
		sections = append(sections, "responses")
	}
	references := referencesIn(nil, token("paths")+token(o.path)+"/parameters", o.parameters)
	for _, name := range sections {
		if raw := o.raw.value(name); raw != nil {
			e.members[name] = raw
			references = referencesIn(references, e.pointer()+token(name), raw)
		}
	}
	size := 0
	met := map[*part]bool{nil: true} // nil is what a reference that leads nowhere meets
	for len(references) > 0 {
		ref := references[len(references)-1]
		references = references[:len(references)-1]
		p := e.meet(d, ref)
		if met[p] {
			continue
		}
		met[p] = true
		if size += len(p.raw); size > maxReferred {
			return nil, fmt.Errorf("it refers to more than %d MiB of the document", maxReferred>>20)
		}
		e.parts = append(e.parts, p)
		references = append(references, p.references...)
	}
	return e, nil
}

// meet returns the part that a reference leads to, nil when there is none. It notes what
// is wrong with the reference.
func (e *extract) meet(d *document, ref reference) *part {
	tokens, p, err := d.resolve(ref.target)
	if err != nil {
		ref.target = d.written(ref.target)
		e.faults = append(e.faults, referenceError{ref, err.Error()})
		return nil
	}
	if want := sectionAt(ref.pointer); tokens[0] == "components" && len(tokens) == 3 && want != "" &&
		want != tokens[1] {
		e.wrong = append(e.wrong, referenceError{ref, "leads to one of " + tokens[1] + ", where one of " +
			want + " belongs"})
	}
	return p
}

// sectionAt returns the section of the components that a reference at this pointer must
// lead to, "" when the pointer alone does not tell. All below a schema are schemas: its
// properties may be called as sections are.
func sectionAt(pointer string) string {
	tokens := strings.Split(pointer, "/")
	last, before := tokens[len(tokens)-1], tokens[len(tokens)-2]
	switch {
	case isSchema(tokens):
		return "schemas"
	case before == "parameters" || before == "responses" || before == "headers" || before == "examples":
		return before
	case last == "requestBody":
		return "requestBodies"
	}
	return ""
}

// isSchema tells whether what stands there is a schema or below one. Components, headers
// and examples may be called schema as well.
func isSchema(tokens []string) bool {
	if tokens = tokens[1:]; tokens[0] == "components" && len(tokens) > 2 {
		if tokens[1] == "schemas" {
			return true
		}
		tokens = tokens[3:]
	}
	for i := 0; i < len(tokens); i++ {
		switch tokens[i] {
		case "schema":
			return true
		case "headers", "examples", "encoding", "links", "callbacks":
			i++ // a name
		}
	}
	return false
}

// fault returns the error for the reference that is the probable reason why the library
// refused the operation, nil when no reference is wrong. It is asked only after the
// library has refused.
func (e *extract) fault() error {
	if all := slices.Concat(e.faults, e.wrong); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// pointer returns the JSON pointer of the operation in the document.
func (e *extract) pointer() string {
	return token("paths") + token(e.operation.path) + token(strings.ToLower(e.operation.method))
}

// unreadable finds out which part cannot be read, or that it is the operation, and why.
// The library does not tell, so each is read by itself.
func (e *extract) unreadable(version string) error {
	for _, p := range e.parts {
		if _, err := e.read(version, nil, []*part{p}); err != nil {
			return fmt.Errorf("at #%s: %s", mcp.Clip(pointerTo(p.tokens), maxReason), oneLine(err))
		}
	}
	_, err := e.read(version, e.members, nil)
	if err == nil {
		return errors.New("the document cannot be read there") // every piece can be read by itself
	}
	return fmt.Errorf("at #%s: %s", mcp.Clip(e.pointer(), maxReason), oneLine(err))
}

// read lets the library read a document that has only some parts and, unless operation is
// nil, an operation with those members. References are not resolved yet.
func (e *extract) read(version string, operation map[string]json.RawMessage,
	parts []*part,
) (*openapi3.T, error) {
	root := map[string]any{"openapi": version, "info": map[string]string{"title": "", "version": ""}}
	components, paths := map[string]map[string]json.RawMessage{}, map[string]any{}
	if operation != nil {
		item := map[string]any{strings.ToLower(e.operation.method): operation}
		if e.operation.parameters != nil {
			item["parameters"] = json.RawMessage(e.operation.parameters)
		}
		paths[e.operation.path] = item
	}
	for _, p := range parts {
		switch len(p.tokens) {
		case 3:
			section := components[p.tokens[1]]
			if section == nil {
				section = map[string]json.RawMessage{}
				components[p.tokens[1]] = section
			}
			section[p.tokens[2]] = p.raw
		case 2:
			paths[p.tokens[1]] = json.RawMessage(p.raw)
		default:
			root[p.tokens[0]] = json.RawMessage(p.raw)
		}
	}
	root["components"], root["paths"] = components, paths
	text, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	read := &openapi3.T{}
	return read, read.UnmarshalJSON(text)
}
