package registry

import (
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// definePrompt reads the definition of a prompt. Errors are *refusalError.
func (i *Item) definePrompt(definition mcp.Object) error {
	exposed, err := i.exposedName()
	if err != nil {
		return err
	}
	if err := i.define("name", definition, exposed); err != nil {
		return err
	}
	raw, err := argumentSchema(definition)
	if err != nil {
		return refuse("schema", err)
	}
	if i.arguments, err = schema.Compile(raw); err != nil {
		return refuse(reasonOf(err), err)
	}
	return nil
}

var errPromptArguments = errors.New(
	"arguments must be a list of objects with different names, and required true or false")

// argumentSchema returns a JSON Schema for the arguments of a prompt, so that prompts and
// tools are validated alike, with the same wording of errors. Arguments that the prompt
// does not declare are allowed, and must be strings as well.
// https://modelcontextprotocol.io/specification/2026-07-28/server/prompts
func argumentSchema(definition mcp.Object) (mcp.RawJSON, error) {
	texts := mcp.RawJSON(`{"type":"string"}`)
	var required []mcp.RawJSON
	list, _ := definition.Value("arguments").Elements()
	members := make([]mcp.Member, 0, len(list))
	seen := make(map[string]bool, len(list))
	for _, element := range list {
		argument, isObject := mcp.ObjectOf(element)
		name, isText := argument.Value("name").Text()
		if !isObject || !isText || seen[name] {
			return nil, errPromptArguments
		}
		seen[name] = true
		members = append(members, mcp.Member{Name: name, Value: texts})
		switch needed := argument.Value("required"); string(needed) {
		case "true":
			required = append(required, mcp.String(name))
		case "", "false", "null":
		default:
			return nil, errPromptArguments
		}
	}
	return mcp.NewObject(
		mcp.Member{Name: "type", Value: mcp.String("object")},
		mcp.Member{Name: "properties", Value: mcp.NewObject(members...).JSON()},
		mcp.Member{Name: "additionalProperties", Value: texts},
		mcp.Member{Name: "required", Value: mcp.Array(required)},
	).JSON(), nil
}
