package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// part is a piece of the document that references lead to or into: a component, a path item, or another member of the
// root. Parts are what an operation takes along into the small document that the library reads.
type part struct {
	tokens     []string // of its JSON pointer: 3 for a component, 2 for a path item, otherwise 1
	raw        []byte
	references []reference // all that stand in raw
}

// reference is one $ref.
type reference struct {
	place  string // JSON pointer of the object that has the $ref
	target string // the text of the $ref
}

// referenceError says which reference is wrong, and what is wrong with it.
type referenceError struct {
	reference
	problem string
}

func (e *referenceError) Error() string {
	return fmt.Sprintf("at #%s: $ref %q %s", cut(e.place, maxReason), cut(e.target, maxReason), e.problem)
}

// pointer returns the tokens of the JSON pointer in a reference within the document, as #/components/schemas/Pet. The
// error completes the sentence "$ref … ".
// https://www.rfc-editor.org/rfc/rfc6901#section-6
func pointer(ref string) ([]string, error) {
	fragment, local := strings.CutPrefix(ref, "#")
	if !local {
		return nil, errors.New("leads out of the document (references to other files are not followed: bundle the document first)")
	}
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

// follow returns the value that tokens lead to from raw, nil when there is none.
func follow(raw []byte, tokens []string) []byte {
	for _, name := range tokens {
		if len(raw) > 0 && raw[0] == '[' {
			elements, err := strictjson.Elements(nil, raw)
			i, wrong := strconv.Atoi(name)
			if err != nil || wrong != nil || i < 0 || i >= len(elements) {
				return nil
			}
			raw = elements[i]
			continue
		}
		if raw = membersOf(raw).value(name); raw == nil {
			return nil
		}
	}
	return raw
}

var errNowhere = errors.New("leads nowhere")

// find returns what a reference within the document leads to. The error names the reference.
func (d *document) find(ref string) ([]byte, error) {
	tokens, p, err := d.resolve(ref)
	if err != nil {
		return nil, fmt.Errorf("$ref %q %w", cut(ref, maxReason), err)
	}
	return follow(p.raw, tokens[len(p.tokens):]), nil
}

// resolve returns the tokens of a reference and the part that it leads to or into. Each target is looked up once, since
// documents repeat references. The error completes the sentence "$ref … ".
func (d *document) resolve(ref string) ([]string, *part, error) {
	tokens, err := pointer(ref)
	if err != nil {
		return nil, nil, err
	}
	p, known := d.targets[ref]
	if !known {
		p = d.part(tokens)
		d.targets[ref] = p
	}
	if p == nil {
		return nil, nil, errNowhere
	}
	return tokens, p, nil
}

// part returns the part of the document in which tokens lead to a value, nil when they lead nowhere.
func (d *document) part(tokens []string) *part {
	var raw []byte
	count := 1
	switch {
	case tokens[0] == "components" && len(tokens) > 2:
		raw, count = d.components[tokens[1]][tokens[2]], 3
	case tokens[0] == "paths" && len(tokens) > 1:
		raw, count = d.paths[tokens[1]], 2
	default:
		raw = d.root[tokens[0]]
	}
	place := pointerTo(tokens[:count])
	p, known := d.parts[place]
	if !known && raw != nil {
		p = &part{tokens: tokens[:count], raw: raw, references: referencesIn(nil, place, raw)}
		d.parts[place] = p
	}
	if p == nil || follow(p.raw, tokens[count:]) == nil {
		return nil
	}
	return p
}

// referencesIn appends to found every $ref in raw, which stands at place. Some may stand in examples and mean nothing;
// so a reference that leads nowhere is only reported when the library then fails.
func referencesIn(found []reference, place string, raw []byte) []reference {
	if !bytes.Contains(raw, []byte(`$ref`)) {
		return found
	}
	switch raw[0] {
	case '{':
		for _, m := range membersOf(raw) {
			if m.Name == "$ref" && m.Value[0] == '"' {
				if target, err := strictjson.Unquote(m.Value); err == nil {
					found = append(found, reference{place, target})
				}
				continue
			}
			found = referencesIn(found, place+token(m.Name), m.Value)
		}
	case '[':
		elements, _ := strictjson.Elements(nil, raw)
		for i, element := range elements {
			found = referencesIn(found, place+"/"+strconv.Itoa(i), element)
		}
	}
	return found
}
