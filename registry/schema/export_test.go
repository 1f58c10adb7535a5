package schema

import (
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Verdicts returns what the fast path and what the library say about data, each by
// itself.
func Verdicts(raw, data mcp.RawJSON) (fast, library bool, err error) {
	s, err := Compile(raw)
	if err != nil {
		return false, false, err
	}
	return s.Verdicts(data)
}

// Verdicts is the function Verdicts for a schema that is compiled already.
func (s *Schema) Verdicts(data mcp.RawJSON) (fast, library bool, err error) {
	found, err := s.library.judge(decode(data))
	return s.root.accepts(new(strictjson.CursorOf(data))), found == nil, err
}

// MaxSteps bounds the steps of one check.
const MaxSteps = maxSteps

// CompilePattern returns how a pattern of ECMA-262 is read.
var CompilePattern = compilePattern

// IsRecursive tells whether a value can meet one subschema at several levels.
func IsRecursive(raw mcp.RawJSON) bool {
	s, err := Compile(raw)
	if err != nil {
		return false
	}
	seen, open := map[*node]bool{}, map[*node]bool{}
	var leads func(n *node) bool
	leads = func(n *node) bool {
		if open[n] || seen[n] {
			return open[n]
		}
		seen[n], open[n] = true, true
		defer delete(open, n)
		for _, e := range n.edges {
			if leads(e.to) {
				return true
			}
		}
		return false
	}
	return leads(s.root)
}
