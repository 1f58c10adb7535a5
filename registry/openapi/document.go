package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/oasdiff/yaml"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// document is an OpenAPI document with its files, taken apart only as far as somebody has
// looked: a fault costs only the operations that use the faulty part. It is for one
// goroutine, because looking fills its places.
type document struct {
	old  bool // it is of 3.0, in which nothing beside a reference counts
	root *place
	files
}

// operation is one method of one path.
type operation struct {
	method, path string
	id           string // operationId; may be empty
	name         string // of the tool, without prefix
	item         *place // the path item that has it
	at           *place // where it stands
	fault        error  // why it cannot be read, or its path item: then it stands for all of the path
}

// anyMethod is the method of an operation that stands for all operations of a path whose
// item cannot be read.
const anyMethod = "*"

const (
	maxDocument = 16 << 20 // bytes of the document and its files
	maxDepth    = 200      // levels of JSON; the time that reading takes grows with their square
	maxReason   = 500      // bytes of a text of a library or the document that an error quotes
	maxReferred = 4 << 20  // bytes of all schemas that one tool refers to
)

// parse reads a document. open reads the files that it refers to, see Config.Files.
func parse(data []byte, open func(name string) ([]byte, error)) (*document, error) {
	if len(data) > maxDocument {
		return nil, fmt.Errorf("the document has more than %d MiB", maxDocument>>20)
	}
	raw, err := asJSON(data)
	if err != nil {
		return nil, err
	}
	root := &place{raw: raw}
	version := root.text("openapi")
	if !strings.HasPrefix(version, "3.") {
		return nil, errors.New(
			`the document does not begin with "openapi": "3.0.x" or "3.1.x"; convert documents of Swagger 2.0`)
	}
	return &document{
		old: strings.HasPrefix(version+".", "3.0."), root: root,
		files: files{open: open, size: len(data), read: map[string]*file{"": {place: root}}},
	}, nil
}

// asJSON returns the content of a file as JSON in its one spelling: it is read as YAML
// when it is no JSON.
func asJSON(data []byte) (mcp.RawJSON, error) {
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
	data, _ = strictjson.Mend(data) // bad UTF-8 and lone surrogates
	if raw, err := strictjson.Canonical(data); err == nil {
		return raw, nil
	}
	return lastNames(data), nil
}

// lastNames returns JSON in which no name stands twice in one object: documents are
// written by hand, and the last one counts.
func lastNames(data []byte) mcp.RawJSON {
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(data)) //nolint:forbidigo // strictjson takes no name twice
	decoder.UseNumber()
	_ = decoder.Decode(&tree) // it is JSON
	data, _ = json.Marshal(tree)
	return data
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

// methods are those that a path item may have, in the order in which the operations of a
// path are offered. Which of them can become tools is decided by annotations.
var methods = []string{
	http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch,
	http.MethodPost, http.MethodPut, http.MethodTrace,
}

// operations returns every operation of the document, ordered by path and method, with
// the names of their tools. Names are given here, before any operation is chosen, so that
// they do not depend on what is included.
func (d *document) operations() []*operation {
	var all []*operation
	paths := d.root.child("paths")
	for _, path := range paths.names() {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		item, err := d.followed(paths.child(path), "pathItems")
		if err != nil { // nobody knows which methods the path has
			all = append(all, &operation{
				method: anyMethod, path: path,
				fault: fmt.Errorf("its path: %w", err),
			})
		}
		for _, method := range methods {
			at := item.child(strings.ToLower(method))
			if !at.value().IsObject() {
				continue
			}
			o := &operation{method: method, path: path, item: item}
			if o.at, o.fault = d.followed(at, ""); o.fault == nil {
				o.id = o.at.text("operationId")
			}
			all = append(all, o)
		}
	}
	nameTools(all)
	return all
}

// label returns what the operator is told as the name of the operation: its operationId,
// or "METHOD /path".
func (o *operation) label() string {
	if o.id != "" {
		return mcp.Clip(o.id, 2*maxName)
	}
	return mcp.Clip(o.method+" "+o.path, 2*maxName)
}

// parameter is a parameter as the document has it, but for its schema.
type parameter struct {
	at                    *place
	Name, In, Description string
	Required              bool
	style
}

// parameters returns the parameters of an operation, and those of its path that the
// operation does not override: a parameter is identified by name and place.
// https://spec.openapis.org/oas/v3.1.1.html#operation-object
func (d *document) parameters(o *operation) ([]*parameter, error) {
	var all []*parameter
	for _, list := range []*place{o.at.child("parameters"), o.item.child("parameters")} {
		if !list.value().IsNull() && !list.raw.IsArray() {
			return nil, fmt.Errorf("at %s: the parameters are no list", list)
		}
		for _, element := range list.items() {
			at, err := d.followed(element, "parameters")
			if err != nil {
				return nil, err
			}
			p := &parameter{at: at}
			if err := at.read(p); err != nil {
				return nil, err
			}
			same := func(other *parameter) bool { return other.Name == p.Name && other.In == p.In }
			if !slices.ContainsFunc(all, same) {
				all = append(all, p)
			}
		}
	}
	return all, nil
}
