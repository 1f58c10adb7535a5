package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

const maxHeaderName = 64 // bytes, without Mcp-Param-

var (
	errHeaderName     = errors.New("x-mcp-header must be an HTTP token of 1 to 64 characters")
	errHeaderTwice    = errors.New("the same x-mcp-header twice")
	errHeaderType     = errors.New("x-mcp-header is only allowed on a string, an integer or a boolean")
	errHeaderPosition = errors.New(
		"x-mcp-header is only allowed on properties that a chain of properties leads to")
)

// headerParams returns the parameters that an input schema marks with x-mcp-header, in
// the order of the schema. A mark that breaks the rules of the specification makes the
// whole tool invalid. The error says which rule.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters
func headerParams(s *schema.Schema) ([]HeaderParam, error) {
	marks, misplaced := s.HeaderMarks()
	var params []HeaderParam
	seen := make(map[string]bool, len(marks))
	for _, mark := range marks {
		param, err := headerParam(mark, seen)
		if err != nil {
			return nil, err
		}
		params = append(params, param)
	}
	if misplaced {
		return nil, errHeaderPosition
	}
	return params, nil
}

// headerParam makes the parameter of one mark. seen has the lower-case names of the marks
// before it; headerParam adds its own, because header names are the same whatever their
// case.
func headerParam(mark schema.HeaderMark, seen map[string]bool) (HeaderParam, error) {
	name, ok := mark.Value.Text()
	if !ok || !isToken(name) {
		return HeaderParam{}, errHeaderName
	}
	folded := strings.ToLower(name)
	if slices.Contains(reservedHeaders, folded) {
		return HeaderParam{}, fmt.Errorf("x-mcp-header must not be %s", folded)
	}
	if seen[folded] {
		return HeaderParam{}, errHeaderTwice
	}
	seen[folded] = true
	switch mark.Type {
	case "string", "integer", "boolean":
		return HeaderParam{Header: name, Path: mark.Path, Type: mark.Type}, nil
	}
	return HeaderParam{}, errHeaderType
}

// isToken tells whether name is an HTTP token of at most maxHeaderName bytes.
// https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2
func isToken(name string) bool {
	return name != "" && len(name) <= maxHeaderName &&
		strings.Trim(name, lowercase+uppercase+digits+"!#$%&'*+-.^_`|~") == ""
}

// reservedHeaders are those that proxies act upon or remove, in lower case. Behind
// Mcp-Param- these names are harmless, but a careless proxy that strips that prefix would
// let a tool's argument set Authorization or Host.
var reservedHeaders = []string{
	"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te",
	"trailer", "transfer-encoding", "upgrade", "host", "content-length", "authorization", "cookie",
	"set-cookie",
}
