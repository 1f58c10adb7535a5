package schema

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
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
	w := &writer{}
	for _, n := range nodes {
		if n.anchor == "" {
			continue
		}
		top := n
		for top.parent != nil {
			top = top.parent
		}
		if top != root && !slices.Contains(w.definitions, top) {
			w.definitions = append(w.definitions, top)
		}
	}
	w.schema(root, true)
	return w.out
}

type writer struct {
	out         []byte
	definitions []*node // what references need and the root does not hold
}

// key begins a member of an object.
func (w *writer) key(name string) {
	if last := w.out[len(w.out)-1]; last != '{' {
		w.out = append(w.out, ',')
	}
	w.out = append(strictjson.AppendQuote(w.out, name), ':')
}

// schema writes one subschema, with the definitions when it is the root. The schema false
// is written as {"not":{}} where a reference leads to it, because only an object can have
// an anchor.
func (w *writer) schema(n *node, isRoot bool) {
	if n.never && n.anchor == "" {
		w.out = append(w.out, "false"...)
		return
	}
	w.out = append(w.out, '{')
	if n.anchor != "" {
		w.key("$anchor")
		w.out = strictjson.AppendQuote(w.out, n.anchor)
	}
	if n.never {
		w.key("not")
		w.out = append(w.out, "{}"...)
	}
	if isRoot && len(w.definitions) > 0 {
		w.key("$defs")
		w.out = append(w.out, '{')
		for i, top := range w.definitions {
			w.key(strconv.Itoa(i))
			w.schema(top, false)
		}
		w.out = append(w.out, '}')
	}
	for _, r := range n.rules {
		w.key(r.Name)
		w.out = append(w.out, r.Value...)
	}
	w.edges(n)
	w.out = append(w.out, '}')
}

// edges writes the keywords with subschemas. The edges of one keyword need not stand
// together: all are written where the first one stands.
func (w *writer) edges(n *node) {
	written := map[string]bool{}
	for _, e := range n.edges {
		if written[e.keyword] {
			continue
		}
		written[e.keyword] = true
		w.key(e.keyword)
		switch e.keyword {
		case "$ref":
			w.out = strictjson.AppendQuote(w.out, "#"+e.to.anchor)
		case "properties", "patternProperties", "dependentSchemas":
			w.out = append(w.out, '{')
			for _, other := range n.under(e.keyword) {
				w.key(other.name)
				w.schema(other.to, false)
				if e.keyword == "properties" && n.named[other.name].required {
					w.withDefault()
				}
			}
			w.out = append(w.out, '}')
		case "allOf", "anyOf", "oneOf", "prefixItems":
			w.out = append(w.out, '[')
			for i, other := range n.under(e.keyword) {
				if i > 0 {
					w.out = append(w.out, ',')
				}
				w.schema(other.to, false)
			}
			w.out = append(w.out, ']')
		case "unevaluatedItems":
			if e.to.never {
				w.out = append(w.out, "false"...)
				continue
			}
			w.out = append(w.out, `{"not":{"not":`...)
			w.schema(e.to, false)
			w.out = append(w.out, "}}"...)
		default:
			w.schema(e.to, false)
		}
	}
}

// withDefault gives the subschema that was just written a default, unless it is the
// schema false.
func (w *writer) withDefault() {
	if object, is := bytes.CutSuffix(w.out, []byte("}")); is {
		w.out = object
		w.key("default")
		w.out = append(w.out, "0}"...)
	}
}
