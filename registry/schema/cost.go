package schema

import (
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Bounds of one check. A unit of work takes the library about a quarter of a microsecond,
// so a check takes it a quarter of a second at most. A check that began cannot be
// stopped; that is why its cost is estimated before.
const (
	maxWork   = 1_000_000
	maxReads  = 50_000_000 // bytes that the fast path reads, each as often as it does
	maxString = 1 << 20    // bytes of one string

	// failureSize is how many bytes a check asks for each time that a value may break a
	// subschema: a third of what the library keeps if it does, since most values do not,
	// and large ones that are right should not need all of a user's memory.
	failureSize = 300
	smallKept   = 1 << 20 // bytes that it may keep without asking: such a check is over soon
)

// cost says what one check can cost in the worst case. It depends on the schema alone;
// the size of the value comes in when a value does.
type cost struct {
	root    int // units of work for the root, once
	value   int // units of work for each value below the root, at most
	meets   int // how many subschemas each value below the root is checked against, at most
	passes  int // how often the fast path reads one byte, at most
	program int // instructions of patterns that run over each byte, at most
	keep    int // bytes that the library keeps for the root, at most
	keeps   int // and for each value below the root
	unique  int // how many subschemas with uniqueItems one value can meet, at most
	// at which depths of a value they can be met; the root has depth 0; nil: at all
	uniqueAt []bool
}

// kept returns how many bytes are asked for what the library keeps, until the check has
// ended, of a text with that many values that may all be wrong.
func (c *cost) kept(values int) int64 {
	kept := int64(c.keep) + int64(c.keeps)*int64(values)
	if kept < smallKept {
		return 0
	}
	return kept
}

// work returns the units of work that the library needs for a text with that many values.
// A part of it grows with the bytes of the text, because the library formats a string
// anew for every subschema that it meets. Another part grows with the powers of ten of
// its numbers, because the library calculates exactly: one number of 1e-400 takes a
// subschema up to a tenth of a millisecond. And uniqueItems looks at all that is below
// each item, so a value that lies deep is looked at often.
func (c *cost) work(data mcp.RawJSON, values, powers int) int {
	meets := c.meets
	if len(data) > 0 && data[0] == '"' {
		meets = c.passes
	}
	work := c.root + c.value*values + meets*(len(data)/12) + c.passes*powers
	if c.unique > 0 {
		work += 3 * c.unique * levels(data, c.uniqueAt)
	}
	return work
}

// graph is a schema as a directed graph: subschemas are its nodes, and keywords with
// subschemas, $ref among them, are its edges. Two kinds of edges make the difference for
// the cost. One leads to a subschema for the same value (allOf, $ref): such an edge is
// "in place", a cycle of them would never end, and each way in place to a node is another
// check of it. The other leads to a subschema for a part of the value (properties,
// items): a cycle of them ends where the value does, but two ways from one node back to
// itself double the checks at every level of the value.
type graph struct {
	closures map[*node]closure
	group    map[*node]int // number of the group that a node is in: the nodes that reach each other
	groups   [][]*node     // a group comes after all others that it reaches
	overlaps []int         // by group: how many subschemas can meet one value because branches overlap
	// slots empties and fills it for each node. To grow it each time, for many references
	// to one large subschema, would take longer than all else.
	named map[slot]int

	// What connect needs to find the groups.
	index map[*node]int // in which order the nodes were visited, from 1
	low   map[*node]int // the least index that a node is known to reach
	stack []*node       // visited, but in no group yet
}

// closure is everything that checks a value where one node does: that node and all that
// it leads to in place.
type closure struct {
	load

	count map[*node]int // how many ways lead to each of them
	chain int           // nodes on the longest way
}

// load is what the check of one value takes.
type load struct {
	nodes   int // that check it
	units   int // of work of the library
	program int // instructions of patterns
	keep    int // bytes that the library keeps of it, at most
	unique  int // nodes with uniqueItems
}

// plus adds up two loads.
func (l load) plus(o load) load {
	return load{
		l.nodes + o.nodes, l.units + o.units, l.program + o.program, l.keep + o.keep,
		l.unique + o.unique,
	}
}

// work returns the units of work that the library needs for one value. They grow with the
// longest way in place, because the library searches its stack of schemas at every step.
func (c *closure) work() int { return c.units * (32 + c.chain) / 32 }

// measure returns the cost of a schema. It refuses schemas in which a cycle of references
// never reaches another part of the value, in which too many subschemas meet one value,
// or whose checks grow exponentially with the depth of the value.
func measure(root *node, nodes []*node) (*cost, error) {
	g := &graph{
		closures: map[*node]closure{}, group: map[*node]int{}, index: map[*node]int{}, low: map[*node]int{},
		named: map[slot]int{},
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
		// Each level of a recursion may lead into the branches that overlap once more.
		overlapping *= strictjson.MaxDepth
	}
	if overlapping > maxOverlapping {
		return nil, root.refuse("more than %d subschemas can meet one value", maxOverlapping)
	}
	c := g.sum(root, nodes, overlapping)
	if c.unique > 0 && !recursive {
		c.uniqueAt = uniqueDepths(root)
	}
	return c, nil
}

// closure collects what checks a value where n does. A node whose closure is being
// collected stands in the map without a count: meeting it again means that references
// lead in a circle.
func (g *graph) closure(n *node) (closure, error) {
	if c, ok := g.closures[n]; ok {
		if c.count == nil {
			return c, n.refuse("references form a cycle that consumes no data")
		}
		return c, nil
	}
	g.closures[n] = closure{}
	c := closure{load: n.load(), count: map[*node]int{n: 1}, chain: 1}
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
		if c.load = c.plus(inner.load); c.nodes > maxInPlace {
			return c, n.refuse("one value can meet more than %d subschemas", maxInPlace)
		}
	}
	g.closures[n] = c
	return c, nil
}

// connect finds the groups of nodes that reach each other, by Tarjan's algorithm for
// strongly connected components.
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

// overlap counts how many subschemas one value can meet because several branches below
// the nodes of group i lead to it. It refuses a group in which two such branches lead
// back into the group, since each level of a value would then double the checks.
// recursive tells whether the group leads back to itself at all.
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

// slots looks at a value that n checks, and returns how much the subschemas weigh
// together that can meet one and the same member, item or name of it, for the worst such
// part. Subschemas for different names or places do not add up. Nor do, within one node,
// properties and additionalProperties, or prefixItems and items: one of the two never
// sees what the other does.
func (g *graph) slots(n *node, weight func(*node) int) int {
	anywhere := map[part]int{}
	clear(g.named)
	for member, count := range g.closures[n].count {
		members, items := rest(member, "additionalProperties", weight), rest(member, "items", weight)
		for i := range member.edges {
			e := &member.edges[i]
			w := count * weight(e.to)
			switch e.part {
			case oneMember:
				g.named[slot{eachMember, e.name}] += w - count*members
			case oneItem:
				g.named[slot{eachItem, e.name}] += w - count*items
			default:
				anywhere[e.part] += w
			}
		}
	}
	delete(anywhere, whole)
	most := 0
	for _, sum := range anywhere {
		most = max(most, sum)
	}
	for s, sum := range g.named {
		most = max(most, sum+anywhere[s.of])
	}
	return most
}

// slot is one part of a value that a schema speaks of by itself.
type slot struct {
	of   part   // eachMember or eachItem
	name string // of the member, or index of the item
}

// rest returns how much the subschema of one node weighs under a keyword that speaks of
// what the node does not name.
func rest(n *node, keyword string, weight func(*node) int) int {
	if to := n.child(keyword); to != nil {
		return weight(to)
	}
	return 0
}

// sum adds up the cost of the whole schema. What lies below the root may be met by
// several branches at once, and counts as often.
func (g *graph) sum(root *node, nodes []*node, overlapping int) *cost {
	top := g.closures[root]
	c := &cost{root: top.work(), passes: top.nodes, program: top.program, keep: top.keep, unique: top.unique}
	for _, n := range nodes {
		for _, e := range n.edges {
			if !e.inPlace() {
				below := g.closures[e.to]
				c.value = max(c.value, below.work()*overlapping)
				c.meets = max(c.meets, below.nodes*overlapping)
				c.program = max(c.program, below.program*overlapping)
				c.keeps = max(c.keeps, below.keep*overlapping)
				c.unique = max(c.unique, below.unique*overlapping)
			}
		}
	}
	c.passes = max(c.passes, c.meets)
	return c
}

// uniqueDepths returns at which depths of a value subschemas with uniqueItems can be met
// below the root of a schema that is not recursive.
func uniqueDepths(root *node) (at []bool) {
	for next := []*node{root}; len(next) > 0 && len(at) <= strictjson.MaxDepth; {
		met, unique := map[*node]bool{}, false
		open := next
		next = nil
		for len(open) > 0 {
			n := open[len(open)-1]
			if open = open[:len(open)-1]; met[n] {
				continue
			}
			met[n], unique = true, unique || n.bounds.unique
			for _, e := range n.edges {
				if e.inPlace() {
					open = append(open, e.to)
				} else {
					next = append(next, e.to)
				}
			}
		}
		at = append(at, unique)
	}
	return at
}

// load returns what a node takes by itself.
func (n *node) load() load {
	l := load{nodes: 1, units: n.work(), program: n.program, keep: failureSize + n.texts()}
	if n.bounds.unique {
		l.unique = 1
	}
	return l
}

// texts returns how many bytes the texts have that the library writes of one value which
// breaks the rules of the node. They hold all names or values that would be right.
func (n *node) texts() (bytes int) {
	for _, r := range n.rules {
		switch r.Name {
		case "required", "dependentRequired", "enum":
			bytes += len(r.Value)
		}
	}
	return bytes
}

// work returns the units of work that one node makes for one value. The library takes a
// fixed time for a node, looks at every property whether the value has it or not, goes
// through all required names for each one that is missing, compares with every value of
// enum, compiles patternProperties anew, and writes texts of what fails. Numbers of the
// schema that are written with an exponent cost as those of a value do.
func (n *node) work() int {
	work := 8 + 2*len(n.allowed) + n.texts()/128
	for _, r := range n.rules {
		values, _, powers := size(r.Value)
		work += values/2 + powers
	}
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
