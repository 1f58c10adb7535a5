package registry

import (
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// ArgumentError says which argument is wrong, how, and what is allowed. Its text is for
// the model that wrote the arguments, and repeats none of their values.
type ArgumentError struct {
	Text string
	// Path is where the first of them stands, as schema.MismatchError has it; "" where
	// that is not known, or no name of the schema.
	Path string
}

func (e *ArgumentError) Error() string { return e.Text }

// ValidateWithin checks arguments (nil means {}): those of a tool against its input
// schema, those of prompts/get as an object of texts that has those which the prompt
// requires. The item must be a tool, or a prompt that has a definition. Errors are
// *ArgumentError or, where the budget refuses the means, *schema.BudgetError; a nil
// budget refuses none. arguments must have passed strictjson.Check. For an argument that
// a header would repeat, null means that it is absent, whatever the schema says about
// null: a header cannot carry null.
func (i *Item) ValidateWithin(arguments mcp.RawJSON, budget schema.Budget) error {
	if arguments == nil {
		arguments = mcp.RawJSON("{}")
	}
	err := i.arguments.CheckUnambiguousWithin(arguments, "arguments", budget)
	if err == nil {
		return nil
	}
	if fewer, found := i.withoutNulls(arguments); found {
		err = i.arguments.CheckUnambiguousWithin(fewer, "arguments", budget)
	}
	return asArgumentError(err)
}

// asArgumentError returns an error of a schema as one of the arguments. That the check
// did not get what it needs is not the fault of the arguments and is returned as it is.
func asArgumentError(err error) error {
	if _, unmet := errors.AsType[*schema.BudgetError](err); unmet || err == nil {
		return err
	}
	wrong := &ArgumentError{Text: err.Error()}
	if mismatch, is := errors.AsType[*schema.MismatchError](err); is {
		wrong.Path = mismatch.Path
	}
	return wrong
}

// withoutNulls returns the arguments without those that a header would repeat and that
// are null. found is false when there are none.
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header
func (i *Item) withoutNulls(arguments mcp.RawJSON) (fewer mcp.RawJSON, found bool) {
	object, _ := mcp.ObjectOf(arguments)
	for n := range i.Headers {
		if value := i.Headers[n].Argument(arguments); value != nil && value.IsNull() {
			object, found = withoutPath(object, i.Headers[n].Path), true
		}
	}
	if !found {
		return nil, false
	}
	return object.JSON(), true
}

// withoutPath returns object without the value that path leads to, which must exist.
func withoutPath(object mcp.Object, path []string) mcp.Object {
	if len(path) == 1 {
		return object.Without(path[0])
	}
	return object.With(path[0], withoutPath(object.Object(path[0]), path[1:]).JSON())
}
