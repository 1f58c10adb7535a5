package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/yaml"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// This file reads documents through the OpenAPI library. Dangerous there: a loader that may follow references reads any
// file and any address, so ours may not, is given no reader of its own, and is never told where the document lies. And it
// refuses a whole document for one fault anywhere in it, so it is given one operation at a time, with what that one needs
// of the document: a fault costs the operations that use it.
//
//	document ──operations──▶ operation ──extract──▶ a document of one operation ──library──▶ loaded

// document is one that was read, taken apart as far as references lead. It is for one goroutine.
type document struct {
	version    string
	root       map[string][]byte
	components map[string]map[string][]byte // by section and name
	paths      map[string][]byte
	parts      map[string]*part // those that were met, by their JSON pointers
	targets    map[string]*part // of references that were met; nil of one that leads nowhere
}

// operation is one method of one path.
type operation struct {
	method, path string
	id           string // operationId, may be empty
	name         string // of the tool
	raw          members
	parameters   []byte // of the path item, nil when it has none
	fault        error  // of the path, whose operations are then not known: this stands for them all
}

// anyMethod is the method of an operation that stands for all of a path.
const anyMethod = "*"

// loaded is one operation as the library reads it, with its references resolved.
type loaded struct {
	*operation
	from *document
	doc  *openapi3.T
	item *openapi3.PathItem
	op   *openapi3.Operation
}

const (
	maxDepth    = 200     // of JSON: the time to read it grows with the square
	maxReason   = 500     // bytes of the library's word on a document
	maxReferred = 4 << 20 // bytes of what one operation needs of the document
)

func parse(data []byte) (*document, error) {
	if len(data) > maxDocument {
		return nil, fmt.Errorf("the document has more than %d MiB", maxDocument>>20)
	}
	if !json.Valid(data) {
		var text json.RawMessage
		if _, err := yaml.Unmarshal(data, &text, yaml.DecodeOpts{DisableTimestamps: true}); err != nil {
			return nil, fmt.Errorf("read the document: %s", oneLine(err))
		}
		data = text
	}
	if depth(data) > maxDepth {
		return nil, fmt.Errorf("the document is more than %d levels deep", maxDepth)
	}
	data, _ = strictjson.Mend(data) // the library mends it too
	version := membersOf(data).text("openapi")
	if !strings.HasPrefix(version, "3.") {
		return nil, errors.New(`the document does not begin with "openapi": "3.0.x" or "3.1.x"; convert documents of Swagger 2.0`)
	}
	d := &document{
		version: version, root: membersOf(data).byName(), components: map[string]map[string][]byte{},
		parts: map[string]*part{}, targets: map[string]*part{},
	}
	d.paths = membersOf(d.root["paths"]).byName()
	for _, section := range membersOf(d.root["components"]) {
		d.components[section.Name] = membersOf(section.Value).byName()
	}
	return d, nil
}

func oneLine(err error) string { return cut(strings.Join(strings.Fields(err.Error()), " "), maxReason) }

// depth returns how deep valid JSON is.
func depth(data []byte) (deepest int) {
	open, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open++
			deepest = max(deepest, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return deepest
}

// members are those of an object in a document, whose JSON is valid but may have repeated names: the last one counts.
type members []strictjson.Member

// membersOf returns nil for what is no object.
func membersOf(data []byte) members {
	all, err := strictjson.Members(nil, data)
	if err != nil {
		return nil
	}
	return all
}

func (m members) value(name string) []byte {
	for i := range slices.Backward(m) {
		if m[i].Name == name {
			return m[i].Value
		}
	}
	return nil
}

func (m members) byName() map[string][]byte {
	named := make(map[string][]byte, len(m))
	for i := range m {
		named[m[i].Name] = m[i].Value
	}
	return named
}

func (m members) text(name string) string {
	value := m.value(name)
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	text, err := strictjson.Unquote(value)
	if err != nil {
		return ""
	}
	return text
}

// methods are those that the library knows, in the order in which operations of a path are offered.
func methods() []string {
	return []string{
		http.MethodConnect, http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch,
		http.MethodPost, http.MethodPut, http.MethodTrace,
	}
}

// operations lists every operation, by path and method.
func (d *document) operations() []*operation {
	var all []*operation
	for _, path := range slices.Sorted(maps.Keys(d.paths)) {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		item, err := d.item(d.paths[path])
		if err != nil { // so that nobody knows its methods
			all = append(all, &operation{method: anyMethod, path: path, fault: err})
		}
		for _, method := range methods() {
			if raw := membersOf(item.value(strings.ToLower(method))); raw != nil {
				all = append(all, &operation{
					method: method, path: path, id: raw.text("operationId"), raw: raw, parameters: item.value("parameters"),
				})
			}
		}
	}
	nameTools(all)
	return all
}

const maxItemReferences = 8 // from one path item to another

// item returns a path item, or the one that it refers to.
func (d *document) item(raw []byte) (members, error) {
	item := membersOf(raw)
	for range maxItemReferences {
		ref := item.text("$ref")
		if ref == "" {
			return item, nil
		}
		target, err := d.find(ref)
		if err != nil {
			return nil, fmt.Errorf("its path: %w", err)
		}
		item = membersOf(target)
	}
	return nil, errors.New("its path: references that lead to each other")
}

// label returns what the document calls the operation.
func (o *operation) label() string {
	if o.id != "" {
		return cut(o.id, 2*maxName)
	}
	return cut(o.method+" "+o.path, 2*maxName)
}

// load lets the library read an operation. answers tells whether what it says of answers is wanted. The error is about
// this operation.
func (d *document) load(o *operation, answers bool) (*loaded, error) {
	if o.fault != nil {
		return nil, o.fault
	}
	needed, err := d.needs(o, answers)
	if err != nil {
		return nil, err
	}
	read, err := needed.read(d.version, needed.members, needed.parts)
	if err != nil {
		return nil, needed.unreadable(d.version)
	}
	if err := openapi3.NewLoader().ResolveRefsIn(read, nil); err != nil {
		if fault := needed.fault(); fault != nil { // which knows the place
			return nil, fault
		}
		return nil, fmt.Errorf("at #%s: %s", needed.place(), oneLine(err))
	}
	item := read.Paths.Value(o.path)
	if item == nil || item.GetOperation(o.method) == nil {
		return nil, fmt.Errorf("at #%s: no operation", needed.place())
	}
	return &loaded{operation: o, from: d, doc: read, item: item, op: item.GetOperation(o.method)}, nil
}

// all returns the parameters of the operation and, where it has none of that name and place, of its path.
func (o *loaded) all() ([]*openapi3.Parameter, error) {
	var all []*openapi3.Parameter
	for _, ref := range slices.Concat(o.op.Parameters, o.item.Parameters) {
		if ref == nil || ref.Value == nil {
			return nil, errors.New("a parameter that is not there")
		}
		same := func(p *openapi3.Parameter) bool { return p.Name == ref.Value.Name && p.In == ref.Value.In }
		if !slices.ContainsFunc(all, same) {
			all = append(all, ref.Value)
		}
	}
	return all, nil
}
