package schema

import (
	"net/url"
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
// to, and the definitions are dropped. raw is the text that the schema was compiled from.
// The result accepts the same values, unless the schema is recursive: then it accepts
// more, because a reference that leads back into itself becomes a schema without
// constraints that keeps its description. ok is false when the result would be nested too
// deeply or be much larger than limit, which is in bytes; the estimate is rough, so
// measure the result. Nor is it for a schema with $dynamicRef or $recursiveRef.
func (s *Schema) Inline(raw mcp.RawJSON, limit int) (inlined mcp.RawJSON, ok bool) {
	if s.dynamic {
		return raw, false
	}
	in := &inliner{
		dialect: s.dialect, byPointer: map[string]mcp.RawJSON{}, anchors: map[string]string{},
		within: map[string]int{},
	}
	in.find("", raw)
	in.remaining = limit
	inlined, _ = in.schema("", raw, 0)
	return inlined, in.remaining >= 0
}

// inliner rewrites one schema that the guard has passed. It works on the text, not on the
// nodes, because the result goes to clients and must keep the annotations, which the
// nodes do not have.
type inliner struct {
	dialect   dialect
	byPointer map[string]mcp.RawJSON // every subschema by its JSON pointer
	anchors   map[string]string      // JSON pointers by the name of an anchor
	// how often a place is being written now: a reference to it leads in a circle
	within    map[string]int
	remaining int // bytes that may still be written, by a rough count; below zero: give up
}

// find notes the subschema at pointer and all below it, with their anchors.
func (in *inliner) find(pointer string, raw mcp.RawJSON) {
	in.byPointer[pointer] = raw
	object, _ := mcp.ObjectOf(raw)
	for keyword, value := range object.Members {
		anchor, ok := value.Text()
		if ok && in.dialect >= draft2019 && (keyword == "$anchor" || keyword == "$dynamicAnchor") {
			in.anchors[anchor] = pointer
		}
		in.eachBelow(pointer, keyword, value, func(below string, raw mcp.RawJSON) mcp.RawJSON {
			in.find(below, raw)
			return nil
		})
	}
}

// eachBelow calls do for every subschema directly under a keyword. It returns the
// keyword's value with what do returned in the place of each subschema.
func (in *inliner) eachBelow(pointer, keyword string, value mcp.RawJSON,
	do func(pointer string, raw mcp.RawJSON) mcp.RawJSON,
) mcp.RawJSON {
	pointer += "/" + keyword
	switch in.dialect.shapeOf(keyword, value) {
	case oneSchema:
		return do(pointer, value)
	case manySchemas:
		elements, _ := value.Elements()
		for i, element := range elements {
			elements[i] = do(pointer+"/"+strconv.Itoa(i), element)
		}
		return mcp.Array(elements)
	case namedSchemas:
		object, _ := mcp.ObjectOf(value)
		members := make([]mcp.Member, 0, object.Len())
		for name, raw := range object.Members {
			in.remaining -= len(name) + len(`"":,`)
			if !raw.IsArray() { // an array is a list of names, which dependencies of draft-07 may hold
				raw = do(pointer+"/"+escape(name), raw)
			}
			members = append(members, mcp.Member{Name: name, Value: raw})
		}
		return mcp.NewObject(members...).JSON()
	case noSchema:
	}
	return value
}

// schema returns the subschema at pointer without references. cut tells whether a
// reference that leads in a circle was cut somewhere below, so that the result accepts
// more than before.
func (in *inliner) schema(pointer string, raw mcp.RawJSON, depth int) (inlined mcp.RawJSON, cut bool) {
	object, ok := mcp.ObjectOf(raw)
	if in.remaining -= len("true,"); !ok {
		return raw, false
	}
	if depth > strictjson.MaxDepth || in.remaining < 0 {
		in.remaining = -1
		return raw, false
	}
	in.within[pointer]++
	defer func() { in.within[pointer]-- }()

	target, refers := object.Value("$ref").Text()
	if refers && in.dialect.loneReferences() {
		object = besideReference(object, pointer == "")
	}
	own, cut := in.members(pointer, object, depth)
	if !refers {
		return own.JSON(), cut
	}
	merged, cutThere := in.refer(own, target, depth)
	if cutThere && !cut {
		merged = merged.Without("unevaluatedItems", "unevaluatedProperties")
	}
	return merged.JSON(), cut || cutThere
}

// members returns what a subschema says itself, without $ref and without the definitions
// and names that only references need.
func (in *inliner) members(pointer string, object mcp.Object, depth int) (own mcp.Object, cut bool) {
	weakened := map[string]bool{}
	members := make([]mcp.Member, 0, object.Len())
	for keyword, value := range object.Members {
		switch keyword {
		case "$defs", "definitions", "$ref":
			continue
		case "$schema", "$id", "$anchor", "$dynamicAnchor":
			if pointer != "" || strings.HasSuffix(keyword, "nchor") {
				continue
			}
		}
		in.remaining -= len(keyword) + len(`"":,`)
		if in.dialect.shapeOf(keyword, value) == noSchema {
			in.remaining -= len(value)
		}
		value = in.eachBelow(pointer, keyword, value, func(below string, raw mcp.RawJSON) mcp.RawJSON {
			inlined, cutBelow := in.schema(below, raw, depth+1)
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
	own = own.Without("unevaluatedItems", "unevaluatedProperties")
	if weakened["not"] {
		own = own.Without("not")
	}
	if weakened["if"] {
		own = own.Without("if", "then", "else")
	}
	if weakened["contains"] {
		own = own.Without("maxContains")
	}
	if weakened["oneOf"] {
		branches := own.Value("oneOf")
		own = own.Without("oneOf")
		if !own.Has("anyOf") {
			own = own.With("anyOf", branches)
		}
	}
	return own
}

// refer returns own together with what a reference leads to: as one schema where they do
// not touch each other, else with the other one in allOf. In place of a reference that
// leads in a circle only title and description are added.
func (in *inliner) refer(own mcp.Object, reference string, depth int) (merged mcp.Object, cut bool) {
	pointer := in.resolve(reference)
	raw, found := in.byPointer[pointer]
	if string(raw) == "true" {
		return own, false
	}
	to, isObject := mcp.ObjectOf(raw)
	if !found || in.within[pointer] > 0 {
		for name, value := range annotationsOf(to).Members {
			if (name == "title" || name == "description") && !own.Has(name) {
				in.remaining -= len(value)
				own = own.With(name, value)
			}
		}
		return own, true
	}
	inlined, cut := in.schema(pointer, raw, depth)
	if there, _ := mcp.ObjectOf(inlined); isObject && mergeable(own, there) {
		members := make([]mcp.Member, 0, own.Len()+there.Len())
		for name, value := range own.Members {
			members = append(members, mcp.Member{Name: name, Value: value})
		}
		for name, value := range there.Members {
			if !own.Has(name) {
				members = append(members, mcp.Member{Name: name, Value: value})
			}
		}
		return mcp.NewObject(members...), cut
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

// resolve returns the place of a reference that the guard has passed.
func (in *inliner) resolve(reference string) string {
	fragment, _ := url.PathUnescape(strings.TrimPrefix(reference, "#"))
	if fragment == "" || fragment[0] == '/' {
		return fragment
	}
	if pointer, ok := in.anchors[fragment]; ok {
		return pointer
	}
	return fragment // a name without a slash is the place of no subschema
}

// besideReference returns the members that count beside $ref in draft-07, which ignores
// all others: annotations, because they help a reader, and at the root what says which
// dialect this is.
func besideReference(schema mcp.Object, isRoot bool) mcp.Object {
	annotations := annotationsOf(schema)
	if isRoot {
		annotations = annotations.With("$schema", schema.Value("$schema")).With("$id", schema.Value("$id"))
	}
	return annotations
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
