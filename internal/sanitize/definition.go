package sanitize

import "github.com/drawbridge-mcp/drawbridge/internal/mcp"

// Definition cleans the definition of a tool, prompt, resource or template before it
// enters the catalogue, when no tenant and so no Policy is known yet. It is stricter than
// Result, because a model reads a definition as instructions: from titles and
// descriptions, also those within schemas, it removes every format and private-use
// character, and every control character but tab and line break, also where a script
// could need them. Secrets in them are redacted.
//
// Everything else keeps its bytes, because programs compare it, and is only counted when
// a rule fires in it: URIs and URI templates as FlaggedURI, and as FlaggedKey the rest,
// such as names, members of schemas that validate, and members that the protocol does not
// have.
func Definition(definition mcp.Object) (mcp.Object, Report) {
	w := borrow(Policy{})
	defer giveBack(w)
	w.strict, w.watch = true, w.watch|carriage
	return w.object(definition, definitionPosition(definition)), w.report()
}

// HoldsSecret tells whether a definition holds a secret in a string that Definition does
// not edit.
func HoldsSecret(definition mcp.Object) bool {
	w := borrow(Policy{})
	defer giveBack(w)
	w.object(definition, definitionPosition(definition))
	return w.foundSecret
}

// definitionPosition tells by its members what a definition defines. One that has the
// members of several kinds is taken for one of them, and then those of the others are
// unknown to it and never edited.
func definitionPosition(definition mcp.Object) position {
	switch {
	case definition.Has("inputSchema"):
		return tool
	case mcp.DefinesItem(definition):
		return extended
	case definition.Has("uri"):
		return resource
	case definition.Has("uriTemplate"):
		return resourceTemplate
	}
	return prompt
}
