package schema

import (
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Bounds of one validation. The unit of work is about a quarter of a microsecond.
const (
	maxWork        = 1_000_000
	maxPatternWork = 50_000_000 // instructions times bytes
	maxString      = 1 << 20    // bytes of one string
)

// cost says what a validation by the library can cost, in the worst case.
type cost struct {
	root    int // work once
	value   int // work for every value below the root
	meets   int // subschemas that one value below the root can meet
	passes  int // how often the short way can pass over one byte
	program int // instructions that run over every byte
}

// work returns the work for a text with that many values. The library formats a string for every subschema it meets.
func (c *cost) work(data mcp.RawJSON, values int) int {
	meets := c.meets
	if len(data) > 0 && data[0] == '"' {
		meets = c.passes
	}
	return c.root + c.value*values + meets*(len(data)/12)
}

// graph is a schema with its references, as far as costs go.
type graph struct {
	closures map[*node]closure
	group    map[*node]int // of nodes that reach each other
	groups   [][]*node     // those that are reached first
	index    map[*node]int
	low      map[*node]int
	stack    []*node
	overlaps []int // by group: how many subschemas can meet one value because several branches lead there
}

// closure is what a value meets where it meets one node: that node and all that apply in place, with how often.
type closure struct {
	count map[*node]int
	total int
	chain int // longest way through it
}

// measure refuses schemas in which a cycle consumes no data, in which too many subschemas meet one value, or in which
// validation is exponential in the depth of the data.
func measure(root *node, nodes []*node) (*cost, error) {
	g := &graph{
		closures: map[*node]closure{}, group: map[*node]int{}, index: map[*node]int{}, low: map[*node]int{},
	}
	for _, n := range nodes {
		if _, err := g.closure(n); err != nil {
			return nil, err
		}
	}
	for _, n := range nodes {
		if g.index[n] == 0 {
			g.connect(n)
		}
	}
	recursive := false
	for i, group := range g.groups {
		again, err := g.overlap(i, group)
		if err != nil {
			return nil, err
		}
		recursive = recursive || again
	}
	overlapping := g.overlaps[g.group[root]]
	if recursive && overlapping > 1 {
		overlapping *= strictjson.MaxDepth // every level may lead out of the recursion once more
	}
	if overlapping > maxOverlapping {
		return nil, root.refuse("more than %d subschemas can meet one value", maxOverlapping)
	}
	return g.sum(root, nodes, overlapping), nil
}

// closure collects what applies in place. Its nodes are being visited while they are in the map with no count.
func (g *graph) closure(n *node) (closure, error) {
	if c, ok := g.closures[n]; ok {
		if c.count == nil {
			return c, n.refuse("references form a cycle that consumes no data")
		}
		return c, nil
	}
	g.closures[n] = closure{}
	c := closure{count: map[*node]int{n: 1}, total: 1, chain: 1}
	for _, e := range n.edges {
		if !e.inPlace() {
			continue
		}
		inner, err := g.closure(e.to)
		if err != nil {
			return c, err
		}
		for to, count := range inner.count {
			c.count[to] += count
		}
		c.chain = max(c.chain, inner.chain+1)
		if c.total += inner.total; c.total > maxInPlace {
			return c, n.refuse("one value can meet more than %d subschemas", maxInPlace)
		}
	}
	g.closures[n] = c
	return c, nil
}

// connect finds the groups of nodes that reach each other (Tarjan's algorithm).
func (g *graph) connect(n *node) {
	g.index[n] = len(g.index) + 1
	g.low[n] = g.index[n]
	g.stack = append(g.stack, n)
	for _, e := range n.edges {
		if g.index[e.to] == 0 {
			g.connect(e.to)
			g.low[n] = min(g.low[n], g.low[e.to])
		} else if _, done := g.group[e.to]; !done {
			g.low[n] = min(g.low[n], g.index[e.to])
		}
	}
	if g.low[n] != g.index[n] {
		return
	}
	var group []*node
	for {
		last := g.stack[len(g.stack)-1]
		g.stack = g.stack[:len(g.stack)-1]
		g.group[last] = len(g.groups)
		group = append(group, last)
		if last == n {
			break
		}
	}
	g.groups = append(g.groups, group)
}

// overlap counts how many subschemas of other groups one value can meet below the nodes of group i, and refuses two
// ways back into the group for one value, which would double the work at every level. It tells whether the group is
// recursive.
func (g *graph) overlap(i int, group []*node) (recursive bool, err error) {
	most := 1
	for _, n := range group {
		back := g.slots(n, func(to *node) int {
			if g.group[to] == i {
				return 1
			}
			return 0
		})
		if back > 1 {
			return true, n.refuse("recursive with branches that overlap")
		}
		recursive = recursive || back > 0
		most = max(most, g.slots(n, func(to *node) int {
			if g.group[to] == i {
				return 1
			}
			return g.overlaps[g.group[to]]
		}))
	}
	g.overlaps = append(g.overlaps, min(most, maxOverlapping+1))
	return recursive, nil
}

// slots returns the largest sum of weights over the subschemas that can meet one member, item or name of a value that
// meets n. Subschemas exclude each other where one node says which name or place is whose.
func (g *graph) slots(n *node, weight func(*node) int) int {
	anywhere := map[string]int{}
	named := map[slot]int{}
	for member, count := range g.closures[n].count {
		place := 0
		rest := restOf(member, weight)
		for _, e := range member.edges {
			w := count * weight(e.to)
			switch e.keyword {
			case "properties":
				named[slot{kind: "{", name: e.name}] += w - count*rest["{"]
			case "prefixItems":
				named[slot{kind: "[", place: place}] += w - count*rest["["]
				place++
			case "additionalProperties", "patternProperties", "unevaluatedProperties":
				anywhere["{"] += w
			case "items", "contains", "unevaluatedItems":
				anywhere["["] += w
			case "propertyNames":
				anywhere["names"] += w
			}
		}
	}
	most := 0
	for _, sum := range anywhere {
		most = max(most, sum)
	}
	for s, sum := range named {
		most = max(most, sum+anywhere[s.kind])
	}
	return most
}

type slot struct {
	kind, name string
	place      int
}

// restOf returns the weights of what one node says about the members and items that it does not name.
func restOf(n *node, weight func(*node) int) map[string]int {
	rest := map[string]int{}
	for _, e := range n.edges {
		switch e.keyword {
		case "additionalProperties":
			rest["{"] += weight(e.to)
		case "items":
			rest["["] += weight(e.to)
		}
	}
	return rest
}

// sum adds up the costs.
func (g *graph) sum(root *node, nodes []*node, overlapping int) *cost {
	c := &cost{root: g.work(root), program: g.program(root)}
	for _, n := range nodes {
		for _, e := range n.edges {
			if !e.inPlace() {
				c.value = max(c.value, g.work(e.to)*overlapping)
				c.meets = max(c.meets, g.closures[e.to].total*overlapping)
				c.program = max(c.program, g.program(e.to)*overlapping)
			}
		}
	}
	c.passes = max(c.meets, g.closures[root].total)
	return c
}

// work returns the work for one value that meets n. The longer the ways in place, the longer the library searches its
// stack.
func (g *graph) work(n *node) int {
	work := 0
	c := g.closures[n]
	for member, count := range c.count {
		work += count * member.work()
	}
	return work * (32 + c.chain) / 32
}

func (g *graph) program(n *node) int {
	program := 0
	for member, count := range g.closures[n].count {
		program += count * member.program
	}
	return program
}

// work is what the library does for one node on one value: a fixed part, every property whether it is there or not, all
// required names for every property that is not, every value of enum, and patternProperties compiled again.
func (n *node) work() int {
	work := 8 + 2*len(n.allowed)
	properties := 0
	for _, e := range n.edges {
		switch e.keyword {
		case "properties":
			properties++
		case "patternProperties":
			work += 2 * n.program
		}
	}
	return work + 2*properties + properties*len(n.required)/64
}
