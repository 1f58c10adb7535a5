package registry

import (
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// schema checks values. It is immutable and safe for concurrent use.
type schema struct {
	draft7  bool
	root    *node
	nodes   []*node // all of them, as read
	cost    *cost
	library *library
}

// compile guards and compiles raw.
func compile(raw mcp.RawJSON) (*schema, error) {
	p, root, c, err := guard(raw)
	if err != nil {
		return nil, err
	}
	patterns := slices.ContainsFunc(p.nodes, func(n *node) bool { return n.program > 0 })
	library, err := newLibrary(rewrite(root, p.nodes), patterns)
	if err != nil {
		return nil, err
	}
	return &schema{draft7: p.draft7, root: root, nodes: p.nodes, cost: c, library: library}, nil
}
