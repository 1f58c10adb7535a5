package schema

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// MaxSize is the size of the largest schema that Compile takes, in bytes.
const MaxSize = 64 << 10

// ErrTooLarge is the error of Compile for a schema of more than MaxSize bytes.
var ErrTooLarge = errors.New("the schema has more than " + strconv.Itoa(MaxSize) + " bytes")

// parser reads the text of one schema into nodes, in which both dialects look the same.
type parser struct {
	dialect   dialect
	id        *url.URL         // $id of the root, without a fragment; nil: it has none that can be read
	byPointer map[string]*node // every subschema by its JSON pointer
	anchors   map[string]*node // those with $anchor or $dynamicAnchor, by that name
	doubled   map[string]bool  // names of $dynamicAnchor that stand at several subschemas
	refs      []reference      // every reference, to be resolved when all subschemas are known
	nodes     []*node          // every subschema, in the order of the text
	patterns  int              // how many patterns so far
	programs  int              // instructions of all patterns so far
	dynamic   bool             // there is a $dynamicRef or $recursiveRef
	gaps      []string         // what is not enforced, see Schema.Unenforced
}

// reference is one $ref, $dynamicRef or $recursiveRef that is not resolved yet.
type reference struct {
	from    *node
	target  string // as written
	dynamic bool   // it is a $dynamicRef
}

// guard reads a schema. It refuses what the library gets wrong and what would cost too
// much, so the nodes of the parser that it returns are safe to compile. Keywords are
// matched exactly, case included: "Type" is a name that nobody knows, and says nothing.
func guard(raw mcp.RawJSON) (p *parser, root *node, c *cost, err error) {
	if len(raw) > MaxSize {
		return nil, nil, nil, ErrTooLarge
	}
	if err := strictjson.Check(raw); err != nil {
		return nil, nil, nil, err
	}
	p = &parser{byPointer: map[string]*node{}, anchors: map[string]*node{}, doubled: map[string]bool{}}
	o, _ := mcp.ObjectOf(raw)
	if p.dialect, err = dialectOf(o.Value("$schema")); err != nil {
		return nil, nil, nil, err
	}
	if root, err = p.read(nil, "", raw); err != nil {
		return nil, nil, nil, err
	}
	if err := p.resolve(); err != nil {
		return nil, nil, nil, err
	}
	p.gaps = weaken(root, p.nodes)
	for _, n := range p.nodes {
		n.derive()
	}
	if c, err = measure(root, p.nodes); err != nil {
		return nil, nil, nil, err
	}
	markPatterns(p.nodes)
	return p, root, c, nil
}

// read reads the subschema at pointer. parent is the node one of whose keywords it
// belongs to.
func (p *parser) read(parent *node, pointer string, raw mcp.RawJSON) (*node, error) {
	n := &node{raw: raw, pointer: pointer, parent: parent, never: string(raw) == "false"}
	if len(p.nodes) >= maxSubschemas {
		return nil, n.refuse("more than %d subschemas", maxSubschemas)
	}
	p.nodes = append(p.nodes, n)
	p.byPointer[pointer] = n
	if n.never || string(raw) == "true" {
		return n, nil
	}
	object, ok := mcp.ObjectOf(raw)
	if !ok {
		return nil, n.refuse("a schema is an object, true or false")
	}
	for name, value := range object.Members {
		if err := p.keyword(n, name, value); err != nil {
			return nil, err
		}
	}
	if p.dialect < draft2020 {
		p.modernise(n)
	}
	return n, nil
}

// modernise brings a node of an older dialect into the form of 2020-12. Up to draft-07
// everything beside $ref counts for nothing, and so does additionalItems unless items is
// a list. What is dropped here may still be the target of a reference, so its nodes live
// on without a parent.
func (p *parser) modernise(n *node) {
	if n.refers && p.dialect.loneReferences() {
		for _, e := range n.edges {
			e.to.parent = nil
		}
		*n = node{raw: n.raw, pointer: n.pointer, parent: n.parent, header: n.header, refers: true}
		return
	}
	if p.dialect == draft4 {
		n.exclusive("minimum", "exclusiveMinimum")
		n.exclusive("maximum", "exclusiveMaximum")
	}
	if p.dialect == draft2019 && n.child("contains") != nil {
		// What contains accepts counts as evaluated in 2020-12, and not in 2019-09.
		n.counts = true
	}
	tuple := n.child("prefixItems") != nil
	kept := n.edges[:0]
	for _, e := range n.edges {
		if e.keyword == "additionalItems" {
			if !tuple {
				e.to.parent = nil
				continue
			}
			e.keyword = "items"
		}
		kept = append(kept, e)
	}
	n.edges = kept
}

// resolve makes an edge of every reference. Only those within the schema are followed. A
// schema has no dynamic scope here, since it has no $id below its root, so $dynamicRef
// leads where $ref would, to the one schema with that name.
// https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage
func (p *parser) resolve() error {
	for i, ref := range p.refs {
		fragment, local := p.fragment(ref.target)
		decoded, err := url.PathUnescape(fragment)
		to := p.anchors[decoded]
		if decoded == "" || decoded[0] == '/' {
			to = p.byPointer[decoded]
		}
		if ref.dynamic && (!local || err != nil || to == nil || p.doubled[decoded]) {
			ref.from.parent.lacks("$dynamicRef", errDynamic)
			ref.from.parent.blind = true
			continue
		}
		switch {
		case !local:
			return ref.from.refuse("$ref leads out of the schema")
		case err != nil:
			return ref.from.refuse("$ref is no valid fragment")
		case to == nil:
			return ref.from.refuse("$ref leads nowhere")
		case p.doubled[decoded]:
			return ref.from.refuse("$ref leads to a name that is used twice")
		}
		if to.anchor == "" {
			to.anchor = "r" + strconv.Itoa(i)
		}
		ref.from.edges = append(ref.from.edges, newEdge("$ref", to))
	}
	return nil
}

// fragment returns the fragment of a reference, and false if it leads out of the schema.
// A schema that has an $id may name itself by that.
// https://json-schema.org/draft/2020-12/json-schema-core#section-8.2.1
func (p *parser) fragment(target string) (fragment string, local bool) {
	fragment, local = strings.CutPrefix(target, "#")
	if local || p.id == nil {
		return fragment, local
	}
	to, err := p.id.Parse(target)
	if err != nil {
		return "", false
	}
	fragment, to.Fragment = to.EscapedFragment(), ""
	return fragment, to.String() == p.id.String()
}

var (
	errDynamic   = errors.New("a $dynamicRef that does not lead to one schema here")
	errRecursive = errors.New("a keyword of 2019-09, which $schema does not name")
)

// derive fills in the fields of n and its edges that others read, from the edges and
// rules that the parser has collected. It marks as unproven a node with a keyword that
// the fast path does not know.
func (n *node) derive() {
	before := map[string]int{} // how many edges have that keyword
	for i := range n.edges {
		e := &n.edges[i]
		if keywords[e.keyword].shape == manySchemas {
			e.name = strconv.Itoa(before[e.keyword])
			before[e.keyword]++
		}
		switch e.keyword {
		case "properties":
			n.name(e.name, property{node: e.to})
		case "$ref", "allOf", "anyOf", "items", "additionalProperties":
		default:
			n.unproven = true
		}
	}
	for _, name := range n.required {
		p := n.named[name]
		if !p.required {
			n.needs++
		}
		p.required = true
		n.name(name, p)
	}
	for _, r := range n.rules {
		switch r.Name {
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
			n.bounds.limit(r.Name, r.Value)
		case "multipleOf", "dependentRequired":
			n.unproven = true
		}
	}
}

// name sets what n says about one name.
func (n *node) name(name string, p property) {
	if n.named == nil {
		n.named = make(map[string]property)
	}
	n.named[name] = p
}
