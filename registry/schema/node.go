package schema

import (
	"fmt"
	"regexp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// node is one subschema as the guard read it: keywords that assert something, in one form for both dialects. It is
// immutable once the guard has passed it.
type node struct {
	place  string // JSON pointer in the schema it came from
	parent *node  // whose keyword holds it; nil for the root and for definitions
	anchor string // the name under which references reach it; "" when there are none
	never  bool   // the schema false
	refers bool   // has $ref

	rules  []strictjson.Member // assertions without subschemas, values as written
	edges  []edge              // subschemas in order, the target of $ref among them
	header mcp.RawJSON         // x-mcp-header

	// The same, read once.
	kinds    kinds
	allowed  map[string]bool // by canonical scalar; nil without enum and const
	required []string
	pattern  *regexp.Regexp
	source   string              // of pattern, as written
	named    map[string]property // properties, and required names that are not among them
	needs    int                 // how many names are required
	bounds   bounds
	unproven bool // has an assertion that only the library decides

	program int // instructions of its own patterns
}

// edge leads to a subschema.
type edge struct {
	keyword string
	name    string         // of the property, or the pattern as the library gets it
	pattern *regexp.Regexp // of patternProperties
	to      *node
}

// property is what a node says about one name.
type property struct {
	node     *node // nil: required, but not among the properties
	required bool
}

// inPlace tells whether an edge's subschema applies to the same value as the node itself.
func (e edge) inPlace() bool {
	switch e.keyword {
	case "$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas":
		return true
	}
	return false
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

// children returns the subschemas under keyword in order.
func (n *node) children(keyword string) []*node {
	var list []*node
	for _, e := range n.edges {
		if e.keyword == keyword {
			list = append(list, e.to)
		}
	}
	return list
}

// rule returns the value of an assertion, nil when there is none.
func (n *node) rule(keyword string) mcp.RawJSON {
	for _, r := range n.rules {
		if r.Name == keyword {
			return r.Value
		}
	}
	return nil
}

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

func kindOf(name string) (kinds, bool) {
	switch name {
	case "null":
		return kindNull, true
	case "boolean":
		return kindBoolean, true
	case "object":
		return kindObject, true
	case "array":
		return kindArray, true
	case "string":
		return kindString, true
	case "integer":
		return kindInteger, true
	case "number":
		return kindNumber | kindInteger, true
	}
	return 0, false
}

// refusalError says where in a schema is what the guard refuses. Its text is for operators.
type refusalError struct{ place, reason string }

func (e *refusalError) Error() string { return "at #" + clip(e.place, 200) + ": " + e.reason }

func (n *node) refuse(format string, args ...any) error {
	return &refusalError{place: n.place, reason: fmt.Sprintf(format, args...)}
}

// clip cuts text to at most size bytes, at the boundary of a character.
func clip(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && text[size]&0xC0 == 0x80 {
		size--
	}
	return text[:size] + "…"
}
