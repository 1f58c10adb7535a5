package sanitize

import "github.com/drawbridge-mcp/drawbridge/internal/mcp"

// Definition cleans a definition of a tool, prompt or resource strictly, because a model reads it as instructions.
// Every format character, private-use character and control but tab and line break goes from titles, descriptions,
// annotations, media types and the texts of schemas. What has a meaning beyond its reader keeps its bytes: names of
// tools, prompts and arguments, and in schemas everything that validates, are counted as FlaggedKey, URIs and URI
// templates as FlaggedURI. The name of what has a URI is only shown, and is cleaned like a title.
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
