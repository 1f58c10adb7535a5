package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// HasReferences tells whether the schema has a $ref.
func (s *Schema) HasReferences() bool {
	return slices.ContainsFunc(s.nodes, func(n *node) bool { return n.refers })
}

// Inline returns the schema without $ref: every reference is replaced by what it points
// to, and the definitions are dropped. The result accepts the same values, unless the
// schema is recursive: then it accepts more, because a reference that leads back into
// itself becomes a schema without constraints that keeps its description. ok is false
// when the result would be nested too deeply or be much larger than limit, which is in
// bytes; the estimate is rough, so measure the result. Nor is it for a schema with
// $dynamicRef or $recursiveRef.
func (s *Schema) Inline(limit int) (inlined mcp.RawJSON, ok bool) {
	if s.dynamic {
		return nil, false
	}
	in := &inliner{
		dialect: s.dialect, byPointer: map[string]*node{}, within: map[*node]int{}, remaining: limit,
	}
	for _, n := range s.nodes {
		in.byPointer[n.pointer] = n
	}
	inlined, _ = in.schema(s.root, 0)
	return inlined, in.remaining >= 0
}

// inliner rewrites one schema that the guard has passed. It works on the text of the
// nodes, because the result goes to clients and must keep the annotations, which the
// nodes do not have.
type inliner struct {
	dialect   dialect
	byPointer map[string]*node // every subschema by its JSON pointer
	// how often a subschema is being written now: a reference to it leads in a circle
	within    map[*node]int
	remaining int // bytes that may still be written, by a rough count; below zero: give up
}

// eachBelow calls do for every subschema directly under a keyword of n. It returns the
// keyword's value with what do returned in the place of each subschema.
func (in *inliner) eachBelow(n *node, keyword string, value mcp.RawJSON, do func(*node) mcp.RawJSON,
) mcp.RawJSON {
	pointer := n.pointer + "/" + keyword
	switch in.dialect.shapeOf(keyword, value) {
	case oneSchema:
		return do(in.byPointer[pointer])
	case manySchemas:
		elements, _ := value.Elements()
		for i := range elements {
			elements[i] = do(in.byPointer[pointer+"/"+strconv.Itoa(i)])
		}
		return mcp.Array(elements)
	case namedSchemas:
		object, _ := mcp.ObjectOf(value)
		members := make([]mcp.Member, 0, object.Len())
		for name, raw := range object.Members {
			in.remaining -= len(name) + len(`"":,`)
			if !raw.IsArray() { // an array is a list of names, which dependencies of draft-07 may hold
				raw = do(in.byPointer[memberPointer(n, keyword, name)])
			}
			members = append(members, mcp.Member{Name: name, Value: raw})
		}
		return mcp.NewObject(members...).JSON()
	case noSchema:
	}
	return value
}

// schema returns a subschema without references. cut tells whether a reference that leads
// in a circle was cut somewhere below, so that the result accepts more than before.
func (in *inliner) schema(n *node, depth int) (inlined mcp.RawJSON, cut bool) {
	object, ok := mcp.ObjectOf(n.raw)
	if in.remaining -= len("true,"); !ok {
		return n.raw, false
	}
	if depth > strictjson.MaxDepth || in.remaining < 0 {
		in.remaining = -1
		return n.raw, false
	}
	in.within[n]++
	defer func() { in.within[n]-- }()

	if n.refers && in.dialect.loneReferences() {
		object = besideReference(object)
	}
	own, cut := in.members(n, object, depth)
	if !n.refers {
		return own.JSON(), cut
	}
	merged, cutThere := in.refer(own, n.child("$ref"), depth)
	if cutThere && !cut {
		merged = merged.Without("unevaluatedItems", "unevaluatedProperties")
	}
	return merged.JSON(), cut || cutThere
}

// members returns what a subschema says itself, without $ref and without the definitions
// and names that only references need.
func (in *inliner) members(n *node, object mcp.Object, depth int) (own mcp.Object, cut bool) {
	weakened := map[string]bool{}
	members := make([]mcp.Member, 0, object.Len())
	for keyword, value := range object.Members {
		switch keyword {
		case "$defs", "definitions", "$ref":
			continue
		case "$schema", "$id", "$anchor", "$dynamicAnchor":
			if n.pointer != "" || strings.HasSuffix(keyword, "nchor") {
				continue
			}
		}
		in.remaining -= len(keyword) + len(`"":,`)
		if in.dialect.shapeOf(keyword, value) == noSchema {
			in.remaining -= len(value)
		}
		value = in.eachBelow(n, keyword, value, func(below *node) mcp.RawJSON {
			inlined, cutBelow := in.schema(below, depth+1)
			if cutBelow {
				weakened[keyword] = true
			}
			return inlined
		})
		members = append(members, mcp.Member{Name: keyword, Value: value})
	}
	own = mcp.NewObject(members...)
	if len(weakened) == 0 {
		return own, false
	}
	return loosen(own, weakened), true
}

// loosen drops keywords that would now refuse what they used to accept. That happens
// where a keyword refuses more when its subschema accepts more, such as not: weakened
// names the keywords whose subschemas do. And it happens to unevaluatedItems and
// unevaluatedProperties, since what the reference that was cut would have evaluated
// counts as unevaluated now.
func loosen(own mcp.Object, weakened map[string]bool) mcp.Object {
	branches := own.Value("oneOf")
	own = own.Without("unevaluatedItems", "unevaluatedProperties")
	for keyword := range weakened {
		own = own.Without(hanging[keyword]...)
	}
	if weakened["oneOf"] && !own.Has("anyOf") {
		own = own.With("anyOf", branches)
	}
	return own
}

// refer returns own together with what a reference leads to: as one schema where they do
// not touch each other, else with the other one in allOf. In place of a reference that
// leads in a circle only title and description are added.
func (in *inliner) refer(own mcp.Object, to *node, depth int) (merged mcp.Object, cut bool) {
	if string(to.raw) == "true" {
		return own, false
	}
	object, isObject := mcp.ObjectOf(to.raw)
	if in.within[to] > 0 {
		for name, value := range annotationsOf(object).Members {
			if (name == "title" || name == "description") && !own.Has(name) {
				in.remaining -= len(value)
				own = own.With(name, value)
			}
		}
		return own, true
	}
	inlined, cut := in.schema(to, depth)
	if there, _ := mcp.ObjectOf(inlined); isObject && mergeable(own, there) {
		var more []mcp.Member
		for name, value := range there.Members {
			if !own.Has(name) {
				more = append(more, mcp.Member{Name: name, Value: value})
			}
		}
		return own.WithAll(more...), cut
	}
	all, _ := own.Value("allOf").Elements()
	return own.With("allOf", mcp.Array(append(all, inlined))), cut
}

// mergeable tells whether the keywords of a and b, put into one schema, mean the same as
// the two schemas side by side. They do when the schemas share no keyword, except
// annotations and keywords with equal values, and when no keyword of one depends on a
// keyword of the other.
func mergeable(a, b mcp.Object) bool {
	groups := map[string]bool{}
	for name := range a.Members {
		groups[keywords[name].group] = true
	}
	delete(groups, "")
	for name, value := range b.Members {
		if group := keywords[name].group; group != "" && (groups[group] || groups["unevaluated"] ||
			group == "unevaluated" && a.Len() > annotationsOf(a).Len()) {
			return false
		}
		if other := a.Value(name); other != nil && string(other) != string(value) &&
			!keywords[name].annotation {
			return false
		}
	}
	return true
}

// besideReference returns the members that count beside $ref in draft-07, which ignores
// all others: annotations, because they help a reader, and what says which dialect this
// is, of which only the root's is written.
func besideReference(schema mcp.Object) mcp.Object {
	return annotationsOf(schema).With("$schema", schema.Value("$schema")).With("$id", schema.Value("$id"))
}

// annotationsOf returns the members of a schema that only describe.
func annotationsOf(schema mcp.Object) mcp.Object {
	members := make([]mcp.Member, 0, schema.Len())
	for name, value := range schema.Members {
		if keywords[name].annotation {
			members = append(members, mcp.Member{Name: name, Value: value})
		}
	}
	return mcp.NewObject(members...)
}
