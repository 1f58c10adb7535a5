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

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// This file and extract.go read documents through the OpenAPI library, which is dangerous
// in two ways. A loader that may follow references reads any file and any address that
// the document names. So ours may not follow them, has no reader to do it with, and is
// never told where the document lies. And the library refuses a whole document for one
// fault anywhere in it. So it is given one operation at a time, as a small document of
// its own with the parts that this operation refers to: a fault then costs only the
// operations that use it.
//
//	document ──operations──▶ operation ──extract──▶ a document of one operation ──library──▶ loaded

// document is an OpenAPI document as valid JSON, taken apart only as far as references
// lead. It is for one goroutine, because looking up references fills parts.
type document struct {
	version    string                       // as 3.0.3
	root       map[string][]byte            // JSON by name of the member
	components map[string]map[string][]byte // JSON by section (schemas, parameters, …) and name
	paths      map[string][]byte            // JSON of path items, by path
	parts      map[string]*part             // those that references led to so far, by JSON pointer

	scattered bool // some references lead to files
	files
}

// operation is one method of one path.
type operation struct {
	method, path string
	id           string // operationId; may be empty
	name         string // of the tool, without prefix
	raw          members
	// JSON of the parameters that the path item has for all its operations; nil when
	// there are none
	parameters []byte
	servers    []byte // JSON of those that it or its path item names for itself; nil when there are none
	fault      error  // why it cannot be read, or its path item: then it stands for all of the path
}

// anyMethod is the method of an operation that stands for all operations of a path whose
// item cannot be read.
const anyMethod = "*"

// loaded is one operation as the library reads it, with its references resolved.
type loaded struct {
	*operation
	from *document
	doc  *openapi3.T // the small document that has only this operation and what it needs
	item *openapi3.PathItem
	op   *openapi3.Operation
}

const (
	maxDocument = 16 << 20 // bytes of the document and its files
	maxDepth    = 200      // levels of JSON; the time that reading takes grows with their square
	maxReason   = 500      // bytes of a text of the library or the document that an error quotes
	maxReferred = 4 << 20  // bytes of all parts that one operation refers to
)

// parse reads a document. open reads the files that it refers to, see Config.Files.
func parse(data []byte, open func(name string) ([]byte, error)) (*document, error) {
	if len(data) > maxDocument {
		return nil, fmt.Errorf("the document has more than %d MiB", maxDocument>>20)
	}
	size := len(data)
	data, err := asJSON(data)
	if err != nil {
		return nil, err
	}
	version := membersOf(data).text("openapi")
	if !strings.HasPrefix(version, "3.") {
		return nil, errors.New(
			`the document does not begin with "openapi": "3.0.x" or "3.1.x"; convert documents of Swagger 2.0`)
	}
	d := &document{
		version: version, root: membersOf(data).byName(), components: map[string]map[string][]byte{},
		parts: map[string]*part{}, scattered: open != nil && isScattered(data),
		files: files{
			open: open, size: size, read: map[string]*file{}, imports: map[string]origin{},
			known: map[string]string{},
		},
	}
	d.paths = membersOf(d.root["paths"]).byName()
	for _, section := range membersOf(d.root["components"]) {
		d.components[section.Name] = membersOf(section.Value).byName()
	}
	return d, nil
}

// asJSON returns the content of a file as valid JSON: it is read as YAML when it is no
// JSON.
func asJSON(data []byte) ([]byte, error) {
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
	data, _ = strictjson.Mend(data) // bad UTF-8 and lone surrogates, which the library replaces too
	return data, nil
}

// oneLine returns the text of an error of a library without line breaks, cut to
// maxReason.
func oneLine(err error) string {
	return mcp.Clip(strings.Join(strings.Fields(err.Error()), " "), maxReason)
}

// depth returns how many arrays and objects are nested in valid JSON. It does not
// recurse, since what it looks at may be nested deeper than a stack should grow.
func depth(data []byte) (deepest int) {
	open := 0
	for _, token := range strictjson.Tokens(data) {
		switch token[0] {
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open--
		}
	}
	return deepest
}

// members are the members of an object in a document. Names may be repeated, since
// documents are written by hand; the last one counts.
type members []strictjson.Member

// membersOf returns the members of the object data, nil when data is no object.
func membersOf(data []byte) members {
	all, err := strictjson.Members(nil, data)
	if err != nil {
		return nil
	}
	return all
}

// value returns the JSON of a member, nil when there is none.
func (m members) value(name string) []byte {
	for i := range slices.Backward(m) {
		if m[i].Name == name {
			return m[i].Value
		}
	}
	return nil
}

// byName returns the JSON of all members by name.
func (m members) byName() map[string][]byte {
	named := make(map[string][]byte, len(m))
	for i := range m {
		named[m[i].Name] = m[i].Value
	}
	return named
}

// text returns the text of a member, "" when there is none or it is no string.
func (m members) text(name string) string {
	text, err := strictjson.Unquote(m.value(name))
	if err != nil {
		return ""
	}
	return text
}

// methods are those that the library knows, in the order in which the
// operations of a path are offered. Which of them can become tools is decided by
// annotations.
var methods = []string{
	http.MethodConnect, http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions,
	http.MethodPatch, http.MethodPost, http.MethodPut, http.MethodTrace,
}

// operations returns every operation of the document, ordered by path and method, with
// the names of their tools. Names are given here, before any operation is chosen, so that
// they do not depend on what is included.
func (d *document) operations() []*operation {
	var all []*operation
	for _, path := range slices.Sorted(maps.Keys(d.paths)) {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		item, err := d.followed(membersOf(d.local("", pointerTo([]string{"paths", path}), d.paths[path])))
		if err != nil { // nobody knows which methods the path has
			all = append(all, &operation{
				method: anyMethod, path: path,
				fault: fmt.Errorf("its path: %w", err),
			})
		}
		for _, method := range methods {
			raw := membersOf(item.value(strings.ToLower(method)))
			if raw == nil {
				continue
			}
			o := &operation{method: method, path: path, parameters: item.value("parameters")}
			if o.raw, o.fault = d.followed(raw); o.fault == nil {
				o.id = o.raw.text("operationId")
				if o.servers = o.raw.value("servers"); o.servers == nil {
					o.servers = item.value("servers")
				}
			}
			all = append(all, o)
		}
	}
	nameTools(all)
	return all
}

// maxItemReferences is how many references are followed one after the other, since they
// may lead in a circle.
const maxItemReferences = 8

// followed returns the members of a path item or operation, or of the one that it refers
// to.
func (d *document) followed(item members) (members, error) {
	for range maxItemReferences {
		ref := item.text("$ref")
		if ref == "" {
			return item, nil
		}
		target, err := d.find(ref)
		if err != nil {
			return nil, err
		}
		item = membersOf(target)
	}
	return nil, errors.New("references that lead to each other")
}

// label returns what the operator is told as the name of the operation: its operationId,
// or "METHOD /path".
func (o *operation) label() string {
	if o.id != "" {
		return mcp.Clip(o.id, 2*maxName)
	}
	return mcp.Clip(o.method+" "+o.path, 2*maxName)
}

// load lets the library read one operation. answers tells whether its answers are read
// too; when they are not, no fault in them can cost the operation. The error says what is
// wrong with this operation, and where.
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
		if fault := needed.fault(); fault != nil { // unlike err, it knows the place in the document
			return nil, fault
		}
		return nil, fmt.Errorf("at #%s: %s", needed.pointer(), oneLine(err))
	}
	item := read.Paths.Value(o.path)
	if item == nil || item.GetOperation(o.method) == nil {
		return nil, fmt.Errorf("at #%s: no operation", needed.pointer())
	}
	return &loaded{operation: o, from: d, doc: read, item: item, op: item.GetOperation(o.method)}, nil
}

// all returns the parameters of the operation, and those of its path that the operation
// does not override: a parameter is identified by name and place.
// https://spec.openapis.org/oas/v3.1.1.html#operation-object
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
