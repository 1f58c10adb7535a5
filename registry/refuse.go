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
// are null: to such clients a null is no string, and servers mean "absent" by it. Both
// hold for annotations, for icons, and for the arguments of a prompt, too. Members that
// the protocol does not have are not looked at.
// https://modelcontextprotocol.io/specification/2026-07-28/schema
func checkMembers(definition mcp.Object, of types) (mcp.Object, error) {
	kept := make([]mcp.Member, 0, definition.Len())
	for name, value := range definition.Members {
		if value.IsNull() {
			continue
		}
		fits := of[name]
		if fits != nil && !fits(value) {
			return definition, refuse("schema", errors.New(name+" has the wrong type"))
		}
		if inner := typesWithin[name]; fits != nil && inner != nil {
			within, err := checkWithin(value, inner)
			if err != nil {
				return definition, err
			}
			value = within
		}
		kept = append(kept, mcp.Member{Name: name, Value: value})
	}
	return mcp.NewObject(kept...), nil
}

// checkWithin is checkMembers for an object, or those in a list. What is neither stays.
func checkWithin(value mcp.RawJSON, of types) (mcp.RawJSON, error) {
	if object, is := mcp.ObjectOf(value); is {
		checked, err := checkMembers(object, of)
		return checked.JSON(), err
	}
	parts, isList := value.Elements()
	if !isList {
		return value, nil
	}
	for i := range parts {
		var err error
		if parts[i], err = checkWithin(parts[i], of); err != nil {
			return nil, err
		}
	}
	return mcp.Array(parts), nil
}

// types are the JSON types of members of the protocol, by their names.
type types map[string]func(mcp.RawJSON) bool

// Types of the members of a tool, of any other item, and of what stands within either.
var (
	toolTypes = types{
		"title": mcp.RawJSON.IsText, "description": mcp.RawJSON.IsText, "icons": mcp.RawJSON.IsArray,
		"annotations": mcp.RawJSON.IsObject, "_meta": mcp.RawJSON.IsObject, "execution": mcp.RawJSON.IsObject,
	}
	itemTypes = types{
		"title": mcp.RawJSON.IsText, "description": mcp.RawJSON.IsText, "icons": mcp.RawJSON.IsArray,
		"annotations": mcp.RawJSON.IsObject, "_meta": mcp.RawJSON.IsObject,
		"arguments": mcp.RawJSON.IsArray, "mimeType": mcp.RawJSON.IsText, "size": isNumber,
	}
	typesWithin = map[string]types{
		"annotations": {
			"title": mcp.RawJSON.IsText, "readOnlyHint": isBoolean, "destructiveHint": isBoolean,
			"idempotentHint": isBoolean, "openWorldHint": isBoolean,
			"audience": mcp.RawJSON.IsArray, "priority": isNumber, "lastModified": mcp.RawJSON.IsText,
		},
		"arguments": {"title": mcp.RawJSON.IsText, "description": mcp.RawJSON.IsText},
		"icons":     {"mimeType": mcp.RawJSON.IsText},
	}
)

func isNumber(value mcp.RawJSON) bool { return value[0] == '-' || value[0] >= '0' && value[0] <= '9' }

func isBoolean(value mcp.RawJSON) bool { return string(value) == "true" || string(value) == "false" }
