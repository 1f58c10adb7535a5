package openapi

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// part is a piece of the document that references lead to or into: a component, a path
// item, or another member of the root. Parts are what an operation takes along into the
// small document that the library reads.
type part struct {
	place
	tokens     []string    // of its JSON pointer: 3 for a component, 2 for a path item, otherwise 1
	references []reference // all that stand in raw
}

// reference is one $ref.
type reference struct {
	pointer string // JSON pointer of the object that has the $ref
	target  string // the text of the $ref
}

// referenceError says which reference is wrong, and what is wrong with it.
type referenceError struct {
	reference
	problem string
}

func (e *referenceError) Error() string {
	return fmt.Sprintf("at #%s: $ref %q %s", mcp.Clip(e.pointer, maxReason), mcp.Clip(e.target, maxReason),
		e.problem)
}

// pointer returns the tokens of the JSON pointer in a reference within the document, as
// #/components/schemas/Pet. The error completes the sentence "$ref … ".
// https://www.rfc-editor.org/rfc/rfc6901#section-6
func pointer(ref string) ([]string, error) {
	fragment := strings.TrimPrefix(ref, "#")
	decoded, err := url.PathUnescape(fragment)
	rest, rooted := strings.CutPrefix(decoded, "/")
	if err != nil || !rooted {
		return nil, errors.New("is no JSON pointer")
	}
	tokens := strings.Split(rest, "/")
	for i := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(tokens[i], "~1", "/"), "~0", "~")
	}
	return tokens, nil
}

// pointerTo returns the JSON pointer with those tokens.
func pointerTo(tokens []string) string {
	var out strings.Builder
	for _, name := range tokens {
		out.WriteString(token(name))
	}
	return out.String()
}

// token returns the text of one token in a JSON pointer, with the slash before it.
func token(name string) string {
	return "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// place is a value that references lead to or through. What it holds is looked for once,
// since many references may lead into a large value, or to what is not there.
type place struct {
	raw      []byte
	held     map[string]*place // by name, and by index those that were looked for; nil: none was
	elements [][]byte          // of an array, of which millions fit into a document
}

// follow returns the value that tokens lead to from p, nil when there is none.
func (p *place) follow(tokens []string) []byte {
	for _, name := range tokens {
		if p.held == nil {
			p.open()
		}
		if p = p.next(name); p == nil {
			return nil
		}
	}
	return p.raw
}

func (p *place) open() {
	p.held = map[string]*place{}
	for _, m := range membersOf(p.raw) {
		p.held[m.Name] = &place{raw: m.Value}
	}
	if bytes.HasPrefix(p.raw, []byte("[")) {
		p.elements, _ = strictjson.Elements(nil, p.raw)
	}
}

// next returns what p holds by that name or index, nil if it holds nothing there.
func (p *place) next(name string) *place {
	i, err := strconv.Atoi(name)
	if held := p.held[name]; held != nil || err != nil || i < 0 || i >= len(p.elements) {
		return held
	}
	p.held[name] = &place{raw: p.elements[i]}
	return p.held[name]
}

var errNowhere = errors.New("leads nowhere")

// find returns what a reference leads to. The error names the reference.
func (d *document) find(ref string) ([]byte, error) {
	tokens, p, err := d.resolve(ref)
	if err != nil {
		return nil, fmt.Errorf("$ref %q %w", mcp.Clip(d.written(ref), maxReason), err)
	}
	return p.follow(tokens[len(p.tokens):]), nil
}

// resolve returns the tokens of a reference and the part that it leads to or into. The
// error completes the sentence "$ref … ".
func (d *document) resolve(ref string) ([]string, *part, error) {
	if !strings.HasPrefix(ref, "#") { // what leads to a file was made local
		_, err := d.within("", ref)
		return nil, nil, cmp.Or(err, errNowhere)
	}
	tokens, err := pointer(ref)
	if err != nil {
		return nil, nil, err
	}
	p, err := d.part(tokens)
	return tokens, p, err
}

// part returns the part of the document in which tokens lead to a value. The error
// completes the sentence "$ref … ".
func (d *document) part(tokens []string) (*part, error) {
	count := 1
	switch {
	case tokens[0] == "components" && len(tokens) > 2:
		count = 3
	case tokens[0] == "paths" && len(tokens) > 1:
		count = 2
	}
	pointer := pointerTo(tokens[:count])
	p, known := d.parts[pointer]
	if !known {
		raw, err := d.raw(pointer, tokens[:count])
		if err != nil {
			return nil, err
		}
		if raw == nil {
			return nil, errNowhere
		}
		p = &part{
			place: place{raw: raw}, tokens: tokens[:count], references: referencesIn(nil, pointer, raw),
		}
		d.parts[pointer] = p
	}
	if p.follow(tokens[count:]) == nil {
		return nil, errNowhere
	}
	return p, nil
}

// raw returns the JSON of a part, nil when there is none.
func (d *document) raw(pointer string, tokens []string) ([]byte, error) {
	var raw []byte
	switch len(tokens) {
	case 3:
		return d.component(tokens[1], tokens[2])
	case 2:
		raw = d.paths[tokens[1]]
	default:
		raw = d.root[tokens[0]]
	}
	return d.local("", pointer, raw), nil
}

// referencesIn appends to found every $ref in raw, which stands at pointer. Some may
// stand in examples and mean nothing; so a reference that leads nowhere is only reported
// when the library then fails.
func referencesIn(found []reference, pointer string, raw []byte) []reference {
	if !bytes.Contains(raw, []byte(`$ref`)) {
		return found
	}
	switch raw[0] {
	case '{':
		for _, m := range membersOf(raw) {
			if m.Name == "$ref" && m.Value[0] == '"' {
				if target, err := strictjson.Unquote(m.Value); err == nil {
					found = append(found, reference{pointer, target})
				}
				continue
			}
			found = referencesIn(found, pointer+token(m.Name), m.Value)
		}
	case '[':
		elements, _ := strictjson.Elements(nil, raw)
		for i, element := range elements {
			found = referencesIn(found, pointer+"/"+strconv.Itoa(i), element)
		}
	}
	return found
}
