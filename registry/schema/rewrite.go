package schema

import (
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// rewrite writes the copy of a guarded schema that the library compiles. The copy means
// the same, and is written in the part of 2020-12 in which the library makes no mistakes:
//
//   - It has neither annotations nor $id.
//   - Every reference leads to an anchor. JSON pointers are not used, because the library
//     looks them up from the schema that refers upwards, and may find another one on its
//     way.
//   - {} stands for true, because the library thinks that true evaluates every member of
//     the value.
//   - Around the subschema of unevaluatedItems stands a double negation, because the
//     library would take what the subschema evaluates within an item for evaluated items
//     of the list; behind not, nothing counts as evaluated.
//   - The subschemas of required properties have a default, because the library would
//     otherwise check null against each that is missing, and keep what it found.
func rewrite(root *node, nodes []*node) []byte {
	var definitions []mcp.Member // what references need and the root does not hold
	met := map[*node]bool{root: true}
	for _, n := range nodes {
		if n.anchor == "" {
			continue
		}
		top := n
		for top.parent != nil {
			top = top.parent
		}
		if !met[top] {
			met[top] = true
			name := strconv.Itoa(len(definitions))
			definitions = append(definitions, mcp.Member{Name: name, Value: top.rewritten()})
		}
	}
	if len(definitions) == 0 {
		return root.rewritten()
	}
	return root.rewritten(mcp.Member{Name: "$defs", Value: mcp.NewObject(definitions...).JSON()})
}

// rewritten returns one subschema, with more members than its own. The schema false has
// none, and is written as {"not":{}} where a reference leads to it, because only an
// object can have an anchor.
func (n *node) rewritten(more ...mcp.Member) mcp.RawJSON {
	if n.never && n.anchor == "" {
		return mcp.RawJSON("false")
	}
	var members []mcp.Member
	if n.anchor != "" {
		members = append(members, mcp.Member{Name: "$anchor", Value: mcp.String(n.anchor)})
	}
	if n.never {
		members = append(members, mcp.Member{Name: "not", Value: []byte("{}")})
	}
	members = append(members, n.rules...)
	written := map[string]bool{}
	for i := range n.edges {
		// The edges of one keyword need not stand together: all are written where the
		// first one stands.
		if e := &n.edges[i]; !written[e.keyword] {
			written[e.keyword] = true
			members = append(members, mcp.Member{Name: e.keyword, Value: n.rewrittenUnder(e)})
		}
	}
	return mcp.NewObject(append(members, more...)...).JSON()
}

// rewrittenUnder returns the value of a keyword with subschemas, of which first is the
// first.
func (n *node) rewrittenUnder(first *edge) mcp.RawJSON {
	switch first.keyword {
	case "$ref":
		return mcp.String("#" + first.to.anchor)
	case "properties", "patternProperties", "dependentSchemas":
		var members []mcp.Member
		for e := range n.under(first.keyword) {
			var more []mcp.Member
			if first.keyword == "properties" && n.named[e.name].required {
				more = []mcp.Member{{Name: "default", Value: mcp.Int(0)}}
			}
			members = append(members, mcp.Member{Name: e.name, Value: e.to.rewritten(more...)})
		}
		return mcp.NewObject(members...).JSON()
	case "allOf", "anyOf", "oneOf", "prefixItems":
		var list []mcp.RawJSON
		for e := range n.under(first.keyword) {
			list = append(list, e.to.rewritten())
		}
		return mcp.Array(list)
	}
	value := first.to.rewritten()
	if first.keyword == "unevaluatedItems" && !first.to.never {
		inner := mcp.NewObject(mcp.Member{Name: "not", Value: value}).JSON()
		value = mcp.NewObject(mcp.Member{Name: "not", Value: inner}).JSON()
	}
	return value
}
