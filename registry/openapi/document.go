package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// This file reads documents through the OpenAPI library. Dangerous there: a loader that may follow references reads any
// file and any address, so ours may not, is given no reader of its own, and is never told where the document lies.

// document is one that was read, with its local references resolved.
type document struct {
	*openapi3.T
}

// operation is one method of one path.
type operation struct {
	method, path string
	item         *openapi3.PathItem
	op           *openapi3.Operation
}

const (
	maxDepth  = 200 // of JSON: the time to read it grows with the square
	maxReason = 500 // bytes of the library's word on a document
)

func parse(data []byte) (*document, error) {
	if len(data) > maxDocument {
		return nil, fmt.Errorf("the document has more than %d MiB", maxDocument>>20)
	}
	if json.Valid(data) && depth(data) > maxDepth { // YAML the library bounds by itself
		return nil, fmt.Errorf("the document is more than %d levels deep", maxDepth)
	}
	read, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		reason := cut(strings.Join(strings.Fields(err.Error()), " "), maxReason)
		return nil, fmt.Errorf("read the document (references to other files are not followed): %s", reason)
	}
	if !strings.HasPrefix(read.OpenAPI, "3.") {
		return nil, errors.New(`the document does not begin with "openapi": "3.0.x" or "3.1.x"; convert documents of Swagger 2.0`)
	}
	return &document{read}, nil
}

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

// operations lists every operation, by path and method.
func (d *document) operations() []operation {
	var all []operation
	items := d.Paths.Map()
	for _, path := range slices.Sorted(maps.Keys(items)) {
		item := items[path]
		if item == nil {
			continue
		}
		methods := item.Operations()
		for _, method := range slices.Sorted(maps.Keys(methods)) {
			if methods[method] != nil {
				all = append(all, operation{method, path, item, methods[method]})
			}
		}
	}
	return all
}

// label returns what the document calls the operation.
func (o *operation) label() string {
	if o.op.OperationID != "" {
		return cut(o.op.OperationID, 2*maxName)
	}
	return cut(o.method+" "+o.path, 2*maxName)
}

// maxName bounds a tool's name before its prefix.
const maxName = 64

// name returns what the tool is called: the operationId, else method and path, made of the characters that a tool's name
// may have.
func (o *operation) name() string {
	if name := fit(o.op.OperationID); name != "" {
		return name
	}
	return fit(strings.ToLower(o.method) + "_" + strings.Trim(o.path, "/"))
}

// fit puts _ in place of every run of characters that names of tools and of their arguments must not have.
func fit(text string) string {
	var out strings.Builder
	for _, c := range text {
		if !isAlphanumeric(c) && c != '-' && c != '.' {
			c = '_'
		}
		if c != '_' || !strings.HasSuffix(out.String(), "_") {
			out.WriteRune(c)
		}
	}
	fitted := out.String()
	if fitted != text { // what was put in place of brackets at an end says nothing
		fitted = strings.Trim(fitted, "_")
	}
	return fitted[:min(len(fitted), maxName)]
}

func isAlphanumeric(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// parameters returns those of the operation and, where it has none of that name and place, of its path.
func (o *operation) parameters() ([]*openapi3.Parameter, error) {
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
