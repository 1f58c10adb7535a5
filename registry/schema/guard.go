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

// Bounds of one schema.
const (
	maxSubschemas  = 2_000
	maxEnum        = 2_000
	maxPatterns    = 100
	maxPattern     = 1_024  // characters
	maxProgram     = 4_000  // instructions of one pattern
	maxPrograms    = 40_000 // of all patterns of a schema
	maxInPlace     = 512    // subschemas that one value can meet at once
	maxOverlapping = 512    // subschemas that meet one value because several branches lead there
)

// parser reads the text of one schema into nodes, in which both dialects look the same.
type parser struct {
	draft7   bool
	places   map[string]*node // every subschema by its JSON pointer
	anchors  map[string]*node // those with $anchor or $dynamicAnchor, by that name
	refs     []reference      // every $ref, to be resolved when all subschemas are known
	nodes    []*node          // every subschema, in the order of the text
	patterns int              // how many patterns so far
	programs int              // instructions of all patterns so far
	gaps     []string         // what is not enforced, see Schema.Unenforced
}

// reference is one $ref that is not resolved yet.
type reference struct {
	from   *node
	target string // as written
}

// guard reads a schema. It refuses what the library gets wrong and what would cost too much, so the nodes of the parser
// that it returns are safe to compile. Keywords are matched exactly, case included: "Type" is a name that nobody knows,
// and says nothing.
func guard(raw mcp.RawJSON) (p *parser, root *node, c *cost, err error) {
	if len(raw) > MaxSize {
		return nil, nil, nil, ErrTooLarge
	}
	if err := strictjson.Check(raw); err != nil {
		return nil, nil, nil, err
	}
	p = &parser{places: map[string]*node{}, anchors: map[string]*node{}}
	if err := p.dialect(raw); err != nil {
		return nil, nil, nil, err
	}
	if root, err = p.read(nil, "", raw); err != nil {
		return nil, nil, nil, err
	}
	if err := p.resolve(); err != nil {
		return nil, nil, nil, err
	}
	p.gaps = weaken(root, p.nodes)
	if c, err = measure(root, p.nodes); err != nil {
		return nil, nil, nil, err
	}
	for _, n := range p.nodes {
		n.derive()
	}
	markPatterns(p.nodes)
	return p, root, c, nil
}

// dialect reads $schema. Absent means 2020-12.
// https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage
func (p *parser) dialect(raw mcp.RawJSON) error {
	o, _ := mcp.ObjectOf(raw)
	draft7, err := isDraft7(o.Value("$schema"))
	p.draft7 = draft7
	return err
}

var errDialect = errors.New("the dialect in $schema is neither 2020-12 nor draft-07")

func isDraft7(raw mcp.RawJSON) (bool, error) {
	if raw == nil {
		return false, nil
	}
	text, _ := raw.Text()
	text = strings.TrimSuffix(text, "#")
	switch strings.TrimPrefix(strings.TrimPrefix(text, "https://"), "http://") {
	case "json-schema.org/draft/2020-12/schema":
		return false, nil
	case "json-schema.org/draft-07/schema":
		return true, nil
	}
	return false, errDialect
}

// read reads the subschema at place. parent is the node one of whose keywords it belongs to.
func (p *parser) read(parent *node, place string, raw mcp.RawJSON) (*node, error) {
	n := &node{place: place, parent: parent}
	if len(p.nodes) >= maxSubschemas {
		return nil, n.refuse("more than %d subschemas", maxSubschemas)
	}
	p.nodes = append(p.nodes, n)
	p.places[place] = n
	switch {
	case string(raw) == "true":
		return n, nil
	case string(raw) == "false":
		n.never = true
		return n, nil
	case !raw.IsObject():
		return nil, n.refuse("a schema is an object, true or false")
	}
	members, err := strictjson.Members(nil, raw)
	if err != nil {
		return nil, n.refuse("not an object")
	}
	for _, m := range members {
		if err := p.keyword(n, m.Name, m.Value); err != nil {
			return nil, err
		}
	}
	if p.draft7 {
		n.keepDraft7()
	}
	return n, nil
}

// keepDraft7 brings a node of draft-07 into the form of 2020-12. In draft-07 everything beside $ref counts for nothing,
// and so does additionalItems unless items is a list. What is dropped here may still be the target of a reference, so
// its nodes live on without a parent.
func (n *node) keepDraft7() {
	if n.refers {
		for _, e := range n.edges {
			e.to.parent = nil
		}
		*n = node{place: n.place, parent: n.parent, header: n.header, refers: true}
		return
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

// resolve makes an edge of every $ref. Only references within the schema are followed.
// https://modelcontextprotocol.io/specification/2026-07-28/basic#json-schema-usage
func (p *parser) resolve() error {
	for i, ref := range p.refs {
		fragment, local := strings.CutPrefix(ref.target, "#")
		if !local {
			return ref.from.refuse("$ref leads out of the schema")
		}
		decoded, err := url.PathUnescape(fragment)
		if err != nil {
			return ref.from.refuse("$ref is no valid fragment")
		}
		to := p.anchors[decoded]
		if decoded == "" || decoded[0] == '/' {
			to = p.places[decoded]
		}
		if to == nil {
			return ref.from.refuse("$ref leads nowhere")
		}
		if to.anchor == "" {
			to.anchor = "r" + strconv.Itoa(i)
		}
		ref.from.edges = append(ref.from.edges, edge{keyword: "$ref", to: to})
	}
	return nil
}

// derive fills in the fields of n that the fast path reads, from the edges and rules that the parser has collected. It
// marks as unproven a node with a keyword that the fast path does not know.
func (n *node) derive() {
	if n.never {
		return
	}
	for _, e := range n.edges {
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
