package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// part is a piece of the document that references lead to or into: a component, a path, or another member of the root.
type part struct {
	tokens     []string // of its JSON pointer
	raw        []byte
	references []reference // in it
}

// reference is one $ref.
type reference struct {
	place  string // JSON pointer of the object that has it
	target string
}

// referenceError says which reference is wrong, and how.
type referenceError struct {
	reference
	problem string
}

func (e *referenceError) Error() string {
	return fmt.Sprintf("at #%s: $ref %q %s", cut(e.place, maxReason), cut(e.target, maxReason), e.problem)
}

// pointer returns the tokens of a reference within the document; the error says what is wrong.
// https://www.rfc-editor.org/rfc/rfc6901#section-6
func pointer(ref string) ([]string, error) {
	fragment, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil, errors.New("leads out of the document (references to other files are not followed: bundle the document first)")
	}
	decoded, err := url.PathUnescape(fragment)
	rest, rooted := strings.CutPrefix(decoded, "/")
	if err != nil || !rooted {
		return nil, errors.New("is no JSON pointer")
	}
	tokens := strings.Split(rest, "/")
	for i := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(tokens[i], "~1", "/"), "~0", "~")
	}
	return tokens, nil
}

func token(name string) string {
	return "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// follow returns the value that tokens lead to below raw, nil when there is none.
func follow(raw []byte, tokens []string) []byte {
	for _, name := range tokens {
		if len(raw) > 0 && raw[0] == '[' {
			elements, err := strictjson.Elements(nil, raw)
			i, wrong := strconv.Atoi(name)
			if err != nil || wrong != nil || i < 0 || i >= len(elements) {
				return nil
			}
			raw = elements[i]
			continue
		}
		if raw = membersOf(raw).value(name); raw == nil {
			return nil
		}
	}
	return raw
}

var errNowhere = errors.New("leads nowhere")

// find returns what a reference within the document leads to. The error names the reference.
func (d *document) find(ref string) ([]byte, error) {
	tokens, err := pointer(ref)
	if err != nil {
		return nil, fmt.Errorf("$ref %q %w", cut(ref, maxReason), err)
	}
	p := d.part(tokens)
	if p == nil {
		return nil, fmt.Errorf("$ref %q %w", cut(ref, maxReason), errNowhere)
	}
	return follow(p.raw, tokens[len(p.tokens):]), nil
}

// part returns the piece of the document with what tokens lead to, nil when they lead nowhere.
func (d *document) part(tokens []string) *part {
	var raw []byte
	count := 1
	switch {
	case tokens[0] == "components" && len(tokens) > 2:
		raw, count = d.components[tokens[1]][tokens[2]], 3
	case tokens[0] == "paths" && len(tokens) > 1:
		raw, count = d.paths[tokens[1]], 2
	default:
		raw = d.root[tokens[0]]
	}
	place := ""
	for _, name := range tokens[:count] {
		place += token(name)
	}
	p, known := d.parts[place]
	if !known && raw != nil {
		p = &part{tokens: tokens[:count], raw: raw, references: referencesIn(nil, place, raw)}
		d.parts[place] = p
	}
	if p == nil || follow(p.raw, tokens[count:]) == nil {
		return nil
	}
	return p
}

// referencesIn appends every $ref at or below place. Some may stand in examples and mean nothing.
func referencesIn(found []reference, place string, raw []byte) []reference {
	if !bytes.Contains(raw, []byte(`$ref`)) {
		return found
	}
	switch raw[0] {
	case '{':
		for _, m := range membersOf(raw) {
			if m.Name == "$ref" && m.Value[0] == '"' {
				if target, err := strictjson.Unquote(m.Value); err == nil {
					found = append(found, reference{place, target})
				}
				continue
			}
			found = referencesIn(found, place+token(m.Name), m.Value)
		}
	case '[':
		elements, _ := strictjson.Elements(nil, raw)
		for i, element := range elements {
			found = referencesIn(found, place+"/"+strconv.Itoa(i), element)
		}
	}
	return found
}

// extract is what one operation needs of its document.
type extract struct {
	operation *operation
	members   map[string]json.RawMessage // of the operation
	parts     []*part
	faults    []referenceError // references that lead nowhere
	wrong     []referenceError // references to a component of another kind than belongs there
}

// needs collects what an operation refers to, directly or not. What is not served, such as callbacks, it leaves out, and
// the answers unless they are wanted: no fault there costs the operation.
func (d *document) needs(o *operation, answers bool) (*extract, error) {
	e := &extract{operation: o, members: map[string]json.RawMessage{"responses": json.RawMessage("{}")}}
	kept := []string{"operationId", "summary", "description", "parameters", "requestBody"}
	if answers {
		kept = append(kept, "responses")
	}
	item := token("paths") + token(o.path)
	references := referencesIn(nil, item+"/parameters", o.parameters)
	for _, name := range kept {
		if raw := o.raw.value(name); raw != nil {
			e.members[name] = raw
			references = referencesIn(references, item+token(strings.ToLower(o.method))+token(name), raw)
		}
	}
	size := 0
	for len(references) > 0 {
		ref := references[len(references)-1]
		references = references[:len(references)-1]
		p := e.meet(d, ref)
		if p == nil || slices.Contains(e.parts, p) {
			continue
		}
		if size += len(p.raw); size > maxReferred {
			return nil, fmt.Errorf("it refers to more than %d MiB of the document", maxReferred>>20)
		}
		e.parts = append(e.parts, p)
		references = append(references, p.references...)
	}
	return e, nil
}

// meet returns the part that a reference leads to, nil when there is none.
func (e *extract) meet(d *document, ref reference) *part {
	tokens, err := pointer(ref.target)
	var p *part
	if err == nil {
		if p = d.part(tokens); p == nil {
			err = errNowhere
		}
	}
	if err != nil {
		e.faults = append(e.faults, referenceError{ref, err.Error()})
		return nil
	}
	if want := sectionAt(ref.place); tokens[0] == "components" && len(tokens) == 3 && want != "" && want != tokens[1] {
		e.wrong = append(e.wrong, referenceError{ref, "leads to one of " + tokens[1] + ", where one of " + want + " belongs"})
	}
	return p
}

// sectionAt returns the section of the components from which something at a place comes, "" where that is not certain.
func sectionAt(place string) string {
	tokens := strings.Split(place, "/")
	last, before := tokens[len(tokens)-1], tokens[len(tokens)-2]
	switch {
	case before == "parameters" || before == "responses" || before == "headers" || before == "examples":
		return before
	case last == "requestBody":
		return "requestBodies"
	case last == "schema" || last == "items" || before == "properties" || before == "allOf" || before == "anyOf" || before == "oneOf":
		return "schemas"
	}
	return ""
}

// fault returns the reference for which the library may have refused the operation, nil when there is none.
func (e *extract) fault() error {
	if all := slices.Concat(e.faults, e.wrong); len(all) > 0 {
		return &all[0]
	}
	return nil
}

// document returns a document that has only the operation and what it needs.
func (e *extract) document(version string) ([]byte, error) {
	root := map[string]any{"openapi": version, "info": map[string]string{"title": "", "version": ""}}
	components, paths := map[string]map[string]json.RawMessage{}, map[string]any{}
	item := map[string]any{strings.ToLower(e.operation.method): e.members}
	if e.operation.parameters != nil {
		item["parameters"] = json.RawMessage(e.operation.parameters)
	}
	paths[e.operation.path] = item
	for _, p := range e.parts {
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
		return nil, fmt.Errorf("the document cannot be read there: %w", err)
	}
	return text, nil
}
