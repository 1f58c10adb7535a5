package sanitize

import "github.com/drawbridge-mcp/drawbridge/internal/mcp"

// Judged is what became of a definition.
type Judged struct {
	Definition  mcp.Object // cleaned
	Report      Report
	HoldsSecret bool // in any of its strings

	// Concealed are the first of the strings that hold hidden text although Definition
	// does not edit them, and Total is how many there are. Those strings go back to the
	// server, or are compared or looked up by programs: names, keys, URIs, what validates
	// in schemas, and everything that no revision of the protocol knows as a text. In the
	// others, such as descriptions, Definition removes hidden text.
	//
	// What scripts and emoji need stays, as it does in results: a choice may be an emoji
	// of a family or a Persian word. A carriage return and a form feed between other
	// characters count as hidden text: on a terminal the first overwrites the line, and
	// the second may clear the screen.
	Concealed []Finding
	Total     int
}

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
//
// Judged says as well which of the strings that keep their bytes hide text: the first of
// them, at most limit.
func Definition(definition mcp.Object, limit int) Judged {
	w := borrow(Policy{})
	defer giveBack(w)
	w.strict, w.watch, w.limit = true, w.watch|carriage, limit
	cleaned := w.object(definition, definitionPosition(definition))
	return Judged{cleaned, w.report(), w.foundSecret, w.concealed, w.offences}
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
