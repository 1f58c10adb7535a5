package registry

import (
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// headerMark is one property whose schema has the keyword x-mcp-header.
type headerMark struct {
	path  []string    // the names of the properties that lead from the root to it
	kind  string      // the property's type; "" when it has none, or several
	value mcp.RawJSON // of the keyword, as written
}

// headerMarks returns the marks of the properties that a chain of properties leads to from the root, each property
// before those within it. misplaced tells whether the keyword stands anywhere else too.
func (s *schema) headerMarks() (marks []headerMark, misplaced bool) {
	marks = s.root.appendMarks(nil, nil)
	all := 0
	for _, n := range s.nodes {
		if n.header != nil {
			all++
		}
	}
	return marks, all > len(marks)
}

func (n *node) appendMarks(marks []headerMark, path []string) []headerMark {
	for _, e := range n.edges {
		if e.keyword != "properties" {
			continue
		}
		inner := slices.Concat(path, []string{e.name})
		if e.to.header != nil {
			kind, _ := e.to.rule("type").Text()
			marks = append(marks, headerMark{path: inner, kind: kind, value: e.to.header})
		}
		marks = e.to.appendMarks(marks, inner)
	}
	return marks
}
