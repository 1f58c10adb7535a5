package sanitize

import "github.com/drawbridge-mcp/drawbridge/internal/mcp"

// Definition cleans the definition of a tool, prompt, resource or template before it enters the catalogue, when no
// tenant and so no Policy is known yet. It is stricter than Result, because a model reads a definition as instructions:
// from titles, descriptions, annotations, media types and the texts of schemas it removes every format and private-use
// character, and every control character but tab and line break, also where a script could need them. Secrets are
// redacted.
//
// What programs compare keeps its bytes and is only counted when a rule fires in it: names of tools, prompts and
// arguments, and everything in schemas that validates, as FlaggedKey; URIs and URI templates as FlaggedURI. The name of
// a resource or template identifies nothing, since its URI does that, and is cleaned like a title.
func Definition(definition mcp.Object) (mcp.Object, Report) {
	w := borrow(Policy{})
	defer giveBack(w)
	w.strict, w.watch = true, w.watch|carriage
	at := defined
	if definition.Has("uri") || definition.Has("uriTemplate") {
		at = located
	}
	return w.object(definition, at), w.report()
}
