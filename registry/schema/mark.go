package schema

import (
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// HeaderMark is one property whose schema has the keyword x-mcp-header, the only keyword
// of MCP's own. Which marks are allowed is for the caller to say.
type HeaderMark struct {
	Path  []string    // the names of the properties that lead from the root to it
	Type  string      // the property's type; "" when it has none, or several
	Value mcp.RawJSON // of the keyword, as written
}

// HeaderMarks returns the marks of the properties that a chain of properties leads to
// from the root, each property before those within it. misplaced tells whether the
// keyword stands anywhere else too.
func (s *Schema) HeaderMarks() (marks []HeaderMark, misplaced bool) {
	marks = s.root.appendMarks(nil, nil)
	all := 0
	for _, n := range s.nodes {
		if n.header != nil {
			all++
		}
	}
	return marks, all > len(marks)
}

func (n *node) appendMarks(marks []HeaderMark, path []string) []HeaderMark {
	for e := range n.under("properties") {
		inner := slices.Concat(path, []string{e.name})
		if e.to.header != nil {
			kind, _ := e.to.rule("type").Text()
			marks = append(marks, HeaderMark{Path: inner, Type: kind, Value: e.to.header})
		}
		marks = e.to.appendMarks(marks, inner)
	}
	return marks
}
