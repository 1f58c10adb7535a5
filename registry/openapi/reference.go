package openapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// place is a value of a document, where it stands. What it holds is looked for once,
// since many references may lead into a large value, or to what is not there. A nil place
// is a value that is not there, and holds nothing.
type place struct {
	within *place // what holds it; nil: it is the whole of a file
	name   string // by which that holds it; of a whole file as in files
	raw    mcp.RawJSON

	held     map[string]*place // by name, and by index those that were looked for; nil: none was
	elements [][]byte          // of an array, of which millions fit into a document
}

// String returns how a reference names the place.
func (p *place) String() string {
	if p.within == nil {
		return p.name + "#"
	}
	return string(strictjson.Pointer(p.within.String()).AppendToken(p.name))
}

// file returns the name of the file that the place is in.
func (p *place) file() string {
	for p.within != nil {
		p = p.within
	}
	return p.name
}

// value returns the JSON that stands there.
func (p *place) value() mcp.RawJSON {
	if p == nil {
		return nil
	}
	return p.raw
}

// text returns the text of a member, "" when there is none or it is no string.
func (p *place) text(name string) string {
	text, _ := p.child(name).value().Text()
	return text
}

// read decodes what stands there into a struct.
func (p *place) read(v any) error {
	if err := json.Unmarshal(p.raw, v); err != nil { //nolint:forbidigo // asJSON has checked it
		return fmt.Errorf("at %s: %s", mcp.Clip(p.String(), maxReason), oneLine(err))
	}
	return nil
}

// names returns the names of the members, in order.
func (p *place) names() []string {
	if !p.value().IsObject() {
		return nil
	}
	p.open()
	return slices.Sorted(maps.Keys(p.held))
}

// items returns the elements.
func (p *place) items() []*place {
	if !p.value().IsArray() {
		return nil
	}
	p.open()
	all := make([]*place, len(p.elements))
	for i := range all {
		all[i] = p.child(strconv.Itoa(i))
	}
	return all
}

// child returns what p holds by that name or index, nil if it holds nothing there.
func (p *place) child(name string) *place {
	if p == nil {
		return nil
	}
	p.open()
	i, err := strconv.Atoi(name)
	if held := p.held[name]; held != nil || err != nil || i < 0 || i >= len(p.elements) {
		return held
	}
	p.held[name] = &place{within: p, name: name, raw: p.elements[i]}
	return p.held[name]
}

// open takes the value apart, unless it was.
func (p *place) open() {
	if p.held != nil {
		return
	}
	p.held = map[string]*place{}
	o, _ := mcp.ObjectOf(p.raw)
	for name, value := range o.Members {
		name = strings.Clone(name) // it is a part of the whole file, and tools keep some of the names
		p.held[name] = &place{within: p, name: name, raw: value}
	}
	if p.raw.IsArray() {
		p.elements, _ = strictjson.Elements[[]byte](p.raw)
	}
}

// pointer returns the tokens of the JSON pointer in a reference. The error completes the
// sentence "$ref … ".
// https://www.rfc-editor.org/rfc/rfc6901#section-6
func pointer(fragment string) ([]string, error) {
	decoded, err := url.PathUnescape(fragment)
	if err != nil || !strings.HasPrefix(decoded, "/") {
		return nil, errors.New("is no JSON pointer")
	}
	return slices.Collect(strictjson.Pointer(decoded).Tokens()), nil
}

// maxItemReferences is how many references are followed one after the other, since they
// may lead in a circle.
const maxItemReferences = 8

// followed returns p, or what it refers to, which is of that section of the components.
func (d *document) followed(p *place, section string) (*place, error) {
	for range maxItemReferences {
		ref := p.text("$ref")
		if ref == "" {
			return p, nil
		}
		var err error
		if p, err = d.find(p, ref, section); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("references that lead to each other")
}

// find returns what a reference leads to that stands in or below p. section is that of
// the components of which it must be, if it is a component; "": there is no such. The
// error names the reference.
func (d *document) find(p *place, ref, section string) (*place, error) {
	name, fragment, err := d.target(p.file(), ref)
	var to *place
	if err == nil {
		ref = strings.TrimSuffix(name+"#"+fragment, "#")
		to, err = d.lookup(name, fragment, section)
	}
	if err != nil {
		return nil, fmt.Errorf("at %s: $ref %q %w", mcp.Clip(p.String(), maxReason),
			mcp.Clip(ref, maxReason), err)
	}
	return to, nil
}

var errNowhere = errors.New("leads nowhere")

// lookup is find in the file of that name. The error completes the sentence "$ref … ".
func (d *document) lookup(name, fragment, section string) (*place, error) {
	whole, err := d.content(name)
	if err != nil || fragment == "" && name != "" {
		return whole, err
	}
	tokens, err := pointer(fragment)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 3 && tokens[0] == "components" && tokens[1] != section &&
		!strings.HasPrefix(tokens[1], "x-") && section != "" {
		return nil, fmt.Errorf("leads to one of %s, where one of %s belongs", mcp.Clip(tokens[1], maxReason),
			section)
	}
	for _, name := range tokens {
		whole = whole.child(name)
	}
	if whole == nil {
		return nil, errNowhere
	}
	return whole, nil
}
