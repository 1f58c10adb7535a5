package schema

import (
	"strconv"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// rewrite writes the copy of a guarded schema that the library compiles. It says the same in the part of 2020-12 in
// which the library is right: no annotations, no $id, every reference by an anchor of its own (the library looks up
// pointers from the referring schema upwards and may find another one), and {} for true (which the library takes to
// evaluate every member of the value), and a double negation around unevaluatedItems (the library takes what that
// evaluates within an item for evaluated items of the list).
func rewrite(root *node, nodes []*node) []byte {
	w := &writer{definitions: map[*node]bool{}}
	for _, n := range nodes {
		if n.anchor == "" {
			continue
		}
		top := n
		for top.parent != nil {
			top = top.parent
		}
		if top != root && !w.definitions[top] {
			w.definitions[top] = true
			w.order = append(w.order, top)
		}
	}
	w.schema(root, true)
	return w.out
}

type writer struct {
	out         []byte
	definitions map[*node]bool
	order       []*node
}

func (w *writer) key(name string) {
	if last := w.out[len(w.out)-1]; last != '{' {
		w.out = append(w.out, ',')
	}
	w.out = append(strictjson.AppendQuote(w.out, name), ':')
}

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
	if isRoot && len(w.order) > 0 {
		w.key("$defs")
		w.out = append(w.out, '{')
		for i, top := range w.order {
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

// edges writes the keywords with subschemas, each once, in the order of their first edges.
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
			w.each(n, e.keyword, func(other edge) {
				w.key(other.name)
				w.schema(other.to, false)
			})
			w.out = append(w.out, '}')
		case "allOf", "anyOf", "oneOf", "prefixItems":
			w.out = append(w.out, '[')
			w.each(n, e.keyword, func(other edge) {
				if w.out[len(w.out)-1] != '[' {
					w.out = append(w.out, ',')
				}
				w.schema(other.to, false)
			})
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

func (w *writer) each(n *node, keyword string, do func(edge)) {
	for _, e := range n.edges {
		if e.keyword == keyword {
			do(e)
		}
	}
}
