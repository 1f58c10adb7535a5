package registry

import (
	"errors"
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// refusalError carries the word for Refusal.Reason beside the cause.
type refusalError struct {
	reason string
	err    error
}

func (e *refusalError) Error() string { return e.err.Error() }

func (e *refusalError) Unwrap() error { return e.err }

func refuse(reason string, err error) error { return &refusalError{reason, err} }

var (
	errLarge = fmt.Errorf("the definition has more than %d bytes", MaxDefinition)
	errURI   = errors.New("uri must be an absolute URI of at most 2048 visible characters")
	errName  = errors.New("the definition has no name")
)

// checkMembers refuses a definition in which a member of the protocol has the wrong JSON
// type. A client that decodes lists into typed structures would refuse the whole list for
// it, with the items of all other servers. It returns the definition without members that
// are null: to such clients a null is no string, and servers mean "absent" by it.
// https://modelcontextprotocol.io/specification/2026-07-28/schema
func checkMembers(definition mcp.Object) (mcp.Object, error) {
	var absent []string
	for name, value := range definition.Members {
		if value.IsNull() {
			absent = append(absent, name)
			continue
		}
		if fits := typesOf[name]; fits != nil && !fits(value) {
			return definition, refuse("schema", errors.New(name+" has the wrong type"))
		}
	}
	return definition.Without(absent...), nil
}

// typesOf are the JSON types that members of the protocol have.
var typesOf = map[string]func(mcp.RawJSON) bool{
	"title": mcp.RawJSON.IsText, "description": mcp.RawJSON.IsText, "mimeType": mcp.RawJSON.IsText,
	"annotations": mcp.RawJSON.IsObject, "_meta": mcp.RawJSON.IsObject,
	"icons": mcp.RawJSON.IsArray, "arguments": mcp.RawJSON.IsArray, "size": isNumber,
}

func isNumber(value mcp.RawJSON) bool { return value[0] == '-' || value[0] >= '0' && value[0] <= '9' }
