package registry

import (
	"errors"
	"fmt"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

const maxHeaderName = 64

var (
	errHeaderName  = errors.New("x-mcp-header must be an HTTP token of 1 to 64 characters")
	errHeaderTwice = errors.New("the same x-mcp-header twice")
	errHeaderType  = errors.New("x-mcp-header is only allowed on a string, an integer or a boolean")
	errHeaderPlace = errors.New("x-mcp-header is only allowed on properties that a chain of properties leads to")
)

// headerParams makes the parameters of what an input schema marks with x-mcp-header. A mark that breaks the rules makes
// the tool invalid.
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
		return nil, errHeaderPlace
	}
	return params, nil
}

// headerParam makes one parameter. seen holds the names before it, without case, and gets its own.
func headerParam(mark schema.HeaderMark, seen map[string]bool) (HeaderParam, error) {
	name, ok := mark.Value.Text()
	if !ok || !isToken(name) {
		return HeaderParam{}, errHeaderName
	}
	folded := strings.ToLower(name)
	if isReservedHeader(folded) {
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

// isToken follows https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2
func isToken(name string) bool {
	for i := range len(name) {
		if !isAlphanumeric(name[i]) && strings.IndexByte("!#$%&'*+-.^_`|~", name[i]) < 0 {
			return false
		}
	}
	return len(name) >= 1 && len(name) <= maxHeaderName
}

// isReservedHeader lists headers that something on the way reads or removes. With Mcp-Param- before them they would be
// harmless; without it, in a careless proxy, they are not.
func isReservedHeader(folded string) bool {
	switch folded {
	case "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
		"transfer-encoding", "upgrade", "host", "content-length", "authorization", "cookie", "set-cookie":
		return true
	}
	return false
}
