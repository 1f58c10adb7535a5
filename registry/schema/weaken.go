package schema

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Some of what a schema says cannot be checked here, such as a pattern that RE2 cannot
// read. Whether a value keeps it is unknown, and unknown must refuse nothing. So the
// nodes are weakened once, before anything is made of them: whatever hangs on an unknown
// is taken out, and both judges then see a schema that accepts all that the original
// accepts.
//
// Taking out a keyword makes its node accept more, and so every node that leads there.
// Nearly all keywords accept more when their subschemas do. The others are loosened:
//
//	not                    taken out
//	if                     taken out, with then and else
//	oneOf                  becomes anyOf: at least one branch must accept
//	maxContains            taken out; contains itself stays
//	additionalProperties   taken out beside a pattern of patternProperties that cannot be read
//	unevaluatedProperties, unevaluatedItems
//	                       taken out where it is unknown what is evaluated

// hanging are, by a keyword, those that may refuse more when what stands under it accepts
// more. In the place of oneOf stands anyOf then, unless there is one.
var hanging = map[string][]string{
	"not": {"not"}, "if": {"if", "then", "else"}, "contains": {"maxContains"}, "oneOf": {"oneOf"},
}

// gap is a keyword of a node that cannot be enforced.
type gap struct{ at, why string } // at is the keyword, or several tokens of a JSON pointer from the node

// hangs is the reason for what is taken out because of another gap.
const hangs = "hangs on a part that cannot be checked"

// maxGaps bounds how many gaps of one schema are told.
const maxGaps = 10

// weaken takes out of the nodes what hangs on their gaps. It returns what is not
// enforced, for operators.
func weaken(root *node, nodes []*node) []string {
	counts := func(n *node) bool { return n.counts }
	if !slices.ContainsFunc(nodes, func(n *node) bool { return len(n.gaps) > 0 || counts(n) }) {
		return nil
	}
	passesOn := func(e edge) bool { return e.inPlace() && e.keyword != "not" }
	for n := range leading(nodes, counts, passesOn) {
		n.takeOut("unevaluatedItems")
	}
	// A node is weak when it may accept more than the original.
	weak := leading(nodes, func(n *node) bool { return len(n.gaps) > 0 }, anywhere)
	for n := range weak {
		n.loosen(weak)
	}
	blind := leading(nodes, func(n *node) bool { return n.blind }, passesOn)
	for n := range blind {
		n.takeOut("unevaluatedItems", "unevaluatedProperties")
	}
	return gapsOf(root, nodes)
}

// anywhere follows every edge, for leading.
func anywhere(edge) bool { return true }

// leading returns the nodes that are starts, and those from which a path of such edges
// leads to one.
func leading(nodes []*node, starts func(*node) bool, along func(edge) bool) map[*node]bool {
	found := map[*node]bool{}
	for changed := true; changed; {
		changed = false
		for _, n := range slices.Backward(nodes) { // what a node leads to mostly comes after it
			leads := func(e edge) bool { return along(e) && found[e.to] }
			if !found[n] && (starts(n) || slices.ContainsFunc(n.edges, leads)) {
				found[n], changed = true, true
			}
		}
	}
	return found
}

// loosen takes out the keywords of n that might refuse more when a weak subschema accepts
// more.
func (n *node) loosen(weak map[*node]bool) {
	leads := map[string]bool{}
	for _, e := range n.edges {
		leads[e.keyword] = leads[e.keyword] || weak[e.to]
	}
	for _, keyword := range []string{"not", "if"} {
		if leads[keyword] {
			n.takeOut(hanging[keyword]...)
		}
	}
	if slices.ContainsFunc(n.unenforced, func(e edge) bool { return e.keyword == "patternProperties" }) {
		n.takeOut("additionalProperties")
	}
	if leads["contains"] && n.rule("maxContains") != nil {
		n.rules = slices.DeleteFunc(n.rules,
			func(r strictjson.Member) bool { return r.Name == "maxContains" })
		n.gaps = append(n.gaps, gap{"maxContains", hangs})
	}
	if !leads["oneOf"] {
		return
	}
	if n.child("anyOf") != nil {
		n.takeOut("oneOf")
		return
	}
	for e := range n.under("oneOf") {
		e.keyword = "anyOf"
	}
	n.gaps = append(n.gaps, gap{"oneOf", "several branches may match, since one of them " + hangs})
}

// takeOut moves the subschemas under these keywords to those that are not enforced.
func (n *node) takeOut(keywords ...string) {
	kept := n.edges[:0:0]
	for _, e := range n.edges {
		if !slices.Contains(keywords, e.keyword) {
			kept = append(kept, e)
			continue
		}
		n.remove(e)
		if g := (gap{e.keyword, hangs}); !slices.Contains(n.gaps, g) {
			n.gaps = append(n.gaps, g)
		}
	}
	n.edges = kept
}

// remove keeps a subschema that is not enforced. References may lead to it, so it lives
// on without a parent.
func (n *node) remove(e edge) {
	e.to.parent = nil
	n.unenforced = append(n.unenforced, e)
	n.blind = n.blind || e.keyword != "not" // under not, nothing counts as evaluated
}

// gapsOf returns the gaps that a value can meet, in the order of the text. Those of
// definitions to which nothing refers are not among them.
func gapsOf(root *node, nodes []*node) []string {
	met := map[*node]bool{root: true}
	for open := []*node{root}; len(open) > 0; {
		n := open[len(open)-1]
		open = open[:len(open)-1]
		for _, e := range n.readable() {
			if !met[e.to] {
				met[e.to] = true
				open = append(open, e.to)
			}
		}
	}
	var described []string
	more := 0
	for _, n := range nodes {
		for _, g := range n.gaps {
			switch {
			case !met[n]:
			case len(described) == maxGaps:
				more++
			default:
				described = append(described, fmt.Sprintf("at %q: %s", "#"+mcp.Clip(n.pointer+"/"+g.at, 200),
					g.why))
			}
		}
	}
	if more > 0 {
		described = append(described, "and "+strconv.Itoa(more)+" more")
	}
	return described
}

// lacks notes that a keyword of n cannot be enforced.
func (n *node) lacks(at string, why error) { n.gaps = append(n.gaps, gap{at, why.Error()}) }
