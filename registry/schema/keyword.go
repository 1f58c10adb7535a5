package schema

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// keyword reads one keyword of n. Keywords that assert nothing are skipped, whatever
// their value: annotations, those of the other dialect, contentEncoding and its kin
// (which the library would assert), and names nobody knows.
func (p *parser) keyword(n *node, name string, value mcp.RawJSON) error {
	if !p.dialect.knows(name) {
		return nil
	}
	switch p.dialect.shapeOf(name, value) {
	case oneSchema:
		_, err := p.below(n, name, name, value)
		return err
	case manySchemas:
		return p.list(n, name, value)
	case namedSchemas:
		return p.named(n, name, value)
	case noSchema:
	}
	switch name {
	case "$schema", "$id", "$ref", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef":
		return p.core(n, name, value)
	case "x-mcp-header":
		n.header = value
		return nil
	}
	return p.assertion(n, name, value)
}

// core reads the keywords that name schemas and refer to them.
func (p *parser) core(n *node, name string, value mcp.RawJSON) error {
	text, isText := value.Text()
	switch name {
	case "$schema":
		if other, err := dialectOf(value); err != nil || other != p.dialect {
			return n.refuse("another dialect in $schema")
		}
		return nil
	case "$id":
		if n.pointer != "" || !isText {
			return n.refuse("$id is only supported at the root, as a string")
		}
		if id, err := url.Parse(text); err == nil { // else no reference can name it
			id.Fragment = ""
			p.id = id.ResolveReference(&url.URL{}) // in the form that references have once resolved
		}
		return nil
	}
	if !isText {
		return n.refuse("%s must be a string", name)
	}
	switch name {
	case "$ref":
		n.refers = true
		p.refs = append(p.refs, reference{from: n, target: text})
	case "$recursiveRef":
		if p.dialect != draft2019 || text != "#" {
			n.lacks(name, errRecursive)
			n.blind = true
			return nil
		}
		return p.aside(n, name, reference{target: text})
	case "$dynamicRef":
		return p.aside(n, name, reference{target: text, dynamic: true})
	default:
		return p.name(n, name, text)
	}
	return nil
}

// aside reads a reference that may stand beside $ref: it gets a node of its own, as in
// allOf.
func (p *parser) aside(n *node, keyword string, ref reference) error {
	to, err := p.below(n, keyword, "allOf", mcp.RawJSON("true"))
	if err != nil {
		return err
	}
	ref.from, p.dynamic = to, true
	p.refs = append(p.refs, ref)
	return nil
}

// name notes the name that $anchor or $dynamicAnchor gives to n.
func (p *parser) name(n *node, keyword, text string) error {
	other := p.anchors[text]
	switch {
	case text == "" || strings.ContainsAny(text, "#/"), other != nil && other != n && keyword == "$anchor":
		return n.refuse("%s must be a plain name, used once", keyword)
	case other != nil && other != n:
		p.doubled[text] = true
	default:
		p.anchors[text] = n
	}
	return nil
}

// below reads a subschema at a place under n, where a keyword leads, under its name of
// 2020-12.
func (p *parser) below(n *node, at, keyword string, raw mcp.RawJSON) (*node, error) {
	to, err := p.read(n, n.pointer+"/"+at, raw)
	if err == nil {
		n.edges = append(n.edges, newEdge(keyword, to))
	}
	return to, err
}

// list reads a keyword whose value is a list of subschemas.
func (p *parser) list(n *node, keyword string, value mcp.RawJSON) error {
	elements, ok := value.Elements()
	if !ok || len(elements) == 0 {
		return n.refuse("%s must be a list of at least one schema", keyword)
	}
	today := keyword
	if keyword == "items" {
		today = "prefixItems"
	}
	for i, element := range elements {
		if _, err := p.below(n, keyword+"/"+strconv.Itoa(i), today, element); err != nil {
			return err
		}
	}
	return nil
}

// named reads a keyword whose value is an object of subschemas.
func (p *parser) named(n *node, keyword string, value mcp.RawJSON) error {
	object, ok := mcp.ObjectOf(value)
	if !ok {
		return n.refuse("%s must be an object of schemas", keyword)
	}
	// lists are the members of dependencies that list names, up to draft-07; 2020-12 has
	// dependentRequired instead
	var lists []mcp.Member
	for name, raw := range object.Members {
		if keyword == "dependencies" && raw.IsArray() {
			if _, err := n.names(raw, keyword); err != nil {
				return err
			}
			lists = append(lists, mcp.Member{Name: name, Value: raw})
			continue
		}
		if err := p.entry(n, keyword, name, raw); err != nil {
			return err
		}
	}
	if len(lists) > 0 {
		required := mcp.NewObject(lists...).JSON()
		n.rules = append(n.rules, strictjson.Member{Name: "dependentRequired", Value: required})
	}
	return nil
}

// entry reads one member of such an object. Definitions get no edge: only references lead
// to them, so a definition that nobody refers to costs nothing.
func (p *parser) entry(n *node, keyword, name string, value mcp.RawJSON) error {
	e := newEdge(keyword, nil)
	e.name = name
	if keyword == "patternProperties" {
		compiled, size, err := p.compile(n, string(strictjson.Pointer(keyword).AppendToken(name)), name)
		if err != nil {
			return err
		}
		if compiled != nil {
			e.name, e.pattern, e.weight = compiled.String(), compiled, weigh(size)
			n.program += size
		}
	}
	parent := n
	if keyword == "$defs" || keyword == "definitions" {
		parent = nil
	}
	to, err := p.read(parent, memberPointer(n, keyword, name), value)
	if err != nil {
		return err
	}
	e.to = to
	switch keyword {
	case "$defs", "definitions":
		return nil
	case "dependencies":
		e.keyword = "dependentSchemas"
	case "patternProperties":
		if e.pattern == nil {
			n.remove(e)
			return nil
		}
	}
	n.edges = append(n.edges, e)
	return nil
}

// compile translates and compiles one pattern, and counts it towards the bounds of the
// schema. The number is that of its instructions. For a pattern that cannot be checked it
// returns nil, and notes the gap under that keyword of n.
func (p *parser) compile(n *node, at, source string) (*regexp.Regexp, int, error) {
	if p.patterns++; p.patterns > maxPatterns {
		return nil, 0, n.refuse("more than %d patterns", maxPatterns)
	}
	compiled, size, err := compilePattern(source)
	if err != nil {
		n.lacks(at, err)
		return nil, 0, nil
	}
	if p.programs += size; p.programs > maxPrograms {
		return nil, 0, n.refuse("patterns of more than %d instructions together", maxPrograms)
	}
	return compiled, size, nil
}

// names reads a list of names of properties. keyword is what the error calls it.
func (n *node) names(value mcp.RawJSON, keyword string) ([]string, error) {
	names, ok := strictjson.Texts(value)
	if !ok {
		return nil, n.refuse("%s must be a list of names", keyword)
	}
	return names, nil
}

// memberPointer returns the pointer to the subschema of that name under a keyword of n.
func memberPointer(n *node, keyword, name string) string {
	return string(strictjson.Pointer(n.pointer + "/" + keyword).AppendToken(name))
}
