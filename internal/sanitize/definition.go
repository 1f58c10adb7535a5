package sanitize

import "github.com/drawbridge-mcp/drawbridge/internal/mcp"

// Definition cleans a definition of a tool, prompt or resource strictly, because a model reads it as instructions.
// Every format character, private-use character and control but tab and line break goes from titles, descriptions,
// annotations and the texts of schemas. What has a meaning beyond its reader keeps its bytes and is counted as
// FlaggedKey: names, and in schemas everything that validates.
func Definition(definition mcp.Object) (mcp.Object, Report) {
	w := borrow(Policy{})
	defer giveBack(w)
	w.strict, w.watch = true, w.watch|carriage
	return w.object(definition, defined), w.report()
}
