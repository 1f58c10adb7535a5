package schema

import (
	"fmt"
	"iter"
	"regexp"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// node is one subschema as the guard read it: the keywords that assert something, in the
// form of 2020-12 for both dialects. Annotations are not in it. It is immutable once the
// guard has passed the schema.
type node struct {
	raw     mcp.RawJSON // its text
	pointer string      // JSON pointer to it in the text
	parent  *node       // the node one of whose keywords holds it; nil for the root and for definitions
	anchor  string      // in the copy for the library, the name that references use; "" when there are none
	never   bool        // it is the schema false, which no value satisfies
	refers  bool        // it has $ref

	gaps       []gap  // what of it cannot be enforced
	unenforced []edge // subschemas that were taken out of edges, or never stood there, because of a gap
	counts     bool   // it has contains of 2019-09, where what that accepts is not evaluated
	blind      bool   // what it evaluates is not known, for unevaluatedProperties and unevaluatedItems

	rules  []strictjson.Member // keywords without subschemas, their values as written
	edges  []edge              // subschemas in the order of the text, and then the target of $ref
	header mcp.RawJSON         // the value of x-mcp-header, nil when there is none

	// What rules and edges say, in the form that the fast path and the explainer read.
	kinds    kinds
	allowed  map[string]bool // values of enum or const, as node.allow writes them; nil when there are none
	required []string
	pattern  *regexp.Regexp
	source   string              // of pattern, as its author wrote it
	named    map[string]property // properties, and required names that are not among them
	needs    int                 // how many different names are required
	bounds   bounds
	unproven bool // it has a keyword that only the library can decide, so the fast path stops here

	program  int  // instructions of its own patterns
	weight   int  // of pattern, see weigh
	patterns bool // a pattern stands in it, or in a subschema that it leads to

	// those that lead to patterns, and those of patternProperties; without those of
	// properties
	patterned []*edge
}

// edge leads from a node to a subschema of it, or by $ref to one somewhere else.
type edge struct {
	keyword string // which leads there, under its name of 2020-12
	part    part   // of the keyword
	// of the property; of patternProperties the pattern as the library gets it; in a list
	// of subschemas its index
	name    string
	pattern *regexp.Regexp // of patternProperties, else nil
	weight  int            // of pattern, see weigh
	to      *node
}

// newEdge returns an edge without a name.
func newEdge(keyword string, to *node) edge {
	return edge{keyword: keyword, part: keywords[keyword].part, to: to}
}

// property is what a node says about one name.
type property struct {
	node     *node // nil: required, but not among the properties
	required bool
}

// inPlace tells whether the subschema applies to the same value as the node itself, not
// to a part of it.
func (e *edge) inPlace() bool { return e.part == whole }

// matches tells whether the subschema is one of patternProperties for members of that
// name.
func (e *edge) matches(name string) bool { return e.pattern != nil && e.pattern.MatchString(name) }

// meetsMember tells whether the member with that name of a value meets the subschema. It
// may be wrongly true, since it does not look at what additionalProperties leaves to
// others.
func (e *edge) meetsMember(name string) bool {
	return e.part == oneMember && e.name == name ||
		e.part == eachMember && (e.pattern == nil || e.matches(name))
}

// meetsItem tells whether the item with that index of a value meets the subschema; it too
// may be wrongly true.
func (e *edge) meetsItem(index string) bool {
	return e.part == oneItem && e.name == index || e.part == eachItem
}

// child returns the first subschema under keyword, nil when there is none.
func (n *node) child(keyword string) *node {
	for _, e := range n.edges {
		if e.keyword == keyword {
			return e.to
		}
	}
	return nil
}

// under yields the edges of keyword in order. Whoever goes through them may change them.
func (n *node) under(keyword string) iter.Seq[*edge] {
	return func(yield func(*edge) bool) {
		for i := range n.edges {
			if e := &n.edges[i]; e.keyword == keyword && !yield(e) {
				return
			}
		}
	}
}

// readable returns the subschemas that n leads to, whether or not they are enforced.
func (n *node) readable() []edge { return slices.Concat(n.edges, n.unenforced) }

// reach appends n and every node to which such edges lead from it, which are few. A node
// that is in all already is not appended again.
func (n *node) reach(all []*node, along func(*edge) bool) []*node {
	if slices.Contains(all, n) {
		return all
	}
	all = append(all, n)
	edges := n.readable()
	for i := range edges {
		if along(&edges[i]) {
			all = edges[i].to.reach(all, along)
		}
	}
	return all
}

// rule returns the value of an assertion, nil when there is none.
func (n *node) rule(keyword string) mcp.RawJSON { return strictjson.Find(n.rules, keyword) }

// kinds is a set of the types of JSON Schema. The empty set is no constraint.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBoolean
	kindObject
	kindArray
	kindString
	kindInteger
	kindNumber // includes the integers
)

// kindsByName are the sets of types that the words of the keyword type stand for. A
// number may be an integer.
var kindsByName = map[string]kinds{
	"null": kindNull, "boolean": kindBoolean, "object": kindObject, "array": kindArray, "string": kindString,
	"integer": kindInteger, "number": kindNumber | kindInteger,
}

// refusalError says where in a schema the guard found what it refuses, and why. Its text
// is for operators.
type refusalError struct{ pointer, reason string }

func (e *refusalError) Error() string { return "at #" + mcp.Clip(e.pointer, 200) + ": " + e.reason }

// refuse returns the error that refuses the schema because of n.
func (n *node) refuse(format string, args ...any) error {
	return &refusalError{pointer: n.pointer, reason: fmt.Sprintf(format, args...)}
}
