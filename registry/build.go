package registry

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Bounds of one source: a hostile or broken server must not fill the memory that all
// tenants share.
const (
	maxItems       = 5_000    // items of one kind
	maxDefinitions = 16 << 20 // bytes of all definitions together
)

var (
	errDuplicate = errors.New(
		"an earlier one of this server has this name or URI, or a name that differs only in case")
	errTogether = fmt.Errorf("the definitions of this server have more than %d bytes together",
		maxDefinitions)
	errLarge = fmt.Errorf("the definition has more than %d bytes", MaxDefinition)
)

// refusalError carries the word for Refusal.Reason beside the cause.
type refusalError struct {
	reason string
	err    error
}

func (e *refusalError) Error() string { return e.err.Error() }

func (e *refusalError) Unwrap() error { return e.err }

func refuse(reason string, err error) error { return &refusalError{reason, err} }

// build makes the shelf for what a source offers now. before is the source's current
// shelf: its items are used again where the definition and what else shapes an item did
// not change, so that a refresh does not compile the schemas of thousands of tools again.
// The origin is used again too, unless the prefix differs.
//
// Although the new shelf is published later, by Replace, calls of items that are in use
// go to the new offer from here on.
func build(s Source, before shelf) (shelf, []Refusal) {
	b := &builder{source: s, origin: before.origin}
	if b.origin == nil || b.origin.prefix != s.Prefix {
		b.origin = &origin{server: s.Name, prefix: s.Prefix}
	}
	next := shelf{
		origin: b.origin, reached: true, listed: [3]bool{true, true, true},
		extensions: s.Extensions,
	}
	for _, kind := range s.Unread {
		next.listed[listOf(kind)] = false
	}
	next.tools = shelve(b, KindTool, toolNames(s.Tools), before.tools, b.tool)
	// not all servers declare it
	if slices.ContainsFunc(next.tools, func(t *Tool) bool { return t.View != "" }) {
		next.extensions = next.extensions.With(mcp.ExtensionsNamed(mcp.ExtensionApps))
	}
	if s.Use != nil {
		next.completes, next.subscribes = s.Completes, s.Subscribe != nil
		next.timeout = b.timeout()
		next.prompts = shelve(b, KindPrompt, textsOf(s.Prompts, "name"), before.prompts, b.prompt)
		next.resources = shelve(b, KindResource, textsOf(s.Resources, "uri"), before.resources, b.resource)
		next.templates = shelve(b, KindTemplate, textsOf(s.Templates, "uriTemplate"), before.templates,
			b.template)
		next.skills = shelve(b, KindSkill, textsOf(s.Skills, "uri"), before.skills, b.skill)
		next.withheld = slices.Sorted(slices.Values(s.Withheld))
		if before.origin == b.origin {
			next.keep(s.Unread, &before)
		}
		next.reads = s.Reads || len(next.resources)+len(next.templates) > 0
	}
	b.origin.service.Store(newService(s, &next))
	return next, b.refusals
}

// keep takes over from before the items of those kinds and whether their lists are known.
// For tools it takes over only the latter; see Source.Unread.
func (s *shelf) keep(kinds []Kind, before *shelf) {
	for _, kind := range kinds {
		s.listed[listOf(kind)] = before.listed[listOf(kind)]
		switch kind {
		case KindPrompt:
			s.prompts = before.prompts
		case KindResource:
			s.resources, s.withheld = before.resources, before.withheld
		case KindTemplate:
			s.templates = before.templates
		case KindSkill:
			s.skills = before.skills
		case KindTool:
		}
	}
}

func toolNames(offers []Offer) []string {
	names := make([]string, len(offers))
	for i := range offers {
		names[i] = offers[i].Definition.Text("name")
	}
	return names
}

func textsOf(definitions []mcp.Object, member string) []string {
	texts := make([]string, len(definitions))
	for i, definition := range definitions {
		texts[i] = definition.Text(member)
	}
	return texts
}

// builder collects the items and refusals of one source during one build.
type builder struct {
	source   Source
	origin   *origin
	bytes    int // of the definitions so far, of all kinds
	refusals []Refusal
}

// refuse notes that an item was left out, with the reason that err carries.
func (b *builder) refuse(kind Kind, name string, err error) {
	reason := "schema"
	if refused, ok := errors.AsType[*refusalError](err); ok {
		reason = refused.reason
	}
	b.refusals = append(b.refusals, Refusal{
		Server: b.source.Name, Kind: kind, Item: clip(name, maxToolName), Reason: reason, Err: err,
	})
}

// clip cuts text to at most size bytes, at the boundary of a character, and marks the
// cut.
func clip(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size] + "…"
}

// entry is a *Tool, *Prompt, *Resource, *Template or *Skill.
type entry interface {
	comparable
	item() *Item
}

// shelve makes the items of one kind and orders them by exposed name. names are the own
// names as offered. made makes the item with index i of the offer; known is the item of
// that own name on the shelf before, or nil. An item that cannot be made, or whose name
// an earlier one took, is refused alone.
func shelve[T entry](b *builder, kind Kind, names []string, before []T,
	made func(i int, known T) (T, error),
) []T {
	known := make(map[string]T, len(before))
	for _, t := range before {
		known[t.item().Name] = t
	}
	// taken holds own names, folded, and exposed names behind "=". Both must be unique:
	// two own names can be cut to the same exposed one, and names that differ only in
	// case are easily taken for each other.
	taken := make(map[string]bool, 2*len(names))
	var items []T
	for i, name := range names {
		if i == maxItems {
			b.refuse(kind, name, refuse("size",
				fmt.Errorf("this and %d more beyond the %d that one server may offer", len(names)-i-1,
					maxItems)))
			break
		}
		key := foldedName(kind, name)
		if taken[key] {
			b.refuse(kind, name, refuse("duplicate", errDuplicate))
			continue
		}
		t, err := made(i, known[name])
		if err == nil {
			err = b.fits(t.item(), taken)
		}
		if err != nil {
			b.refuse(kind, name, err)
			continue
		}
		taken[key], taken["="+t.item().Exposed] = true, true
		b.bytes += len(t.item().Raw)
		items = append(items, t)
	}
	slices.SortFunc(items, func(a, b T) int { return strings.Compare(a.item().Exposed, b.item().Exposed) })
	return items
}

// foldedName returns the form in which an own name must be unique. Case counts in URIs,
// because two URIs that differ only in case may be different resources.
func foldedName(kind Kind, name string) string {
	if kind == KindTool || kind == KindPrompt {
		return strings.ToLower(name)
	}
	return name
}

// fits refuses an item whose exposed name is taken, or that would make the definitions
// too large together.
func (b *builder) fits(i *Item, taken map[string]bool) error {
	switch {
	case taken["="+i.Exposed]:
		return refuse("duplicate", errDuplicate)
	case b.bytes+len(i.Raw) > maxDefinitions:
		return refuse("size", errTogether)
	}
	return nil
}

// tool returns the known tool when its definition is the same, with calls now going where
// the offer says; otherwise a new tool.
func (b *builder) tool(i int, known *Tool) (*Tool, error) {
	offer := &b.source.Tools[i]
	if known != nil && known.origin == b.origin && sha256.Sum256(offer.Definition.JSON()) == known.offered {
		return known.with(offer), nil
	}
	return newTool(b.origin, offer)
}

// prompt, resource and template return the known item when building it again would make
// the same one, otherwise a new one.
func (b *builder) prompt(i int, known *Prompt) (*Prompt, error) {
	definition := b.source.Prompts[i]
	if known != nil && b.unchanged(&known.Item, definition) {
		return known, nil
	}
	p := &Prompt{}
	return p, p.define(b, definition)
}

func (b *builder) resource(i int, known *Resource) (*Resource, error) {
	definition := b.source.Resources[i]
	if known != nil && b.unchanged(&known.Item, definition) {
		return known, nil
	}
	r := &Resource{}
	return r, r.define(b, definition)
}

func (b *builder) template(i int, known *Template) (*Template, error) {
	definition := b.source.Templates[i]
	if known != nil && b.unchanged(&known.Item, definition) {
		return known, nil
	}
	t := &Template{}
	return t, t.define(b, definition)
}

func (b *builder) skill(i int, known *Skill) (*Skill, error) {
	definition := b.source.Skills[i]
	if known != nil && b.unchanged(&known.Item, definition) {
		return known, nil
	}
	s := &Skill{}
	return s, s.define(b, definition)
}

// unchanged tells whether building the definition again would make the same item.
func (b *builder) unchanged(i *Item, definition mcp.Object) bool {
	return i.origin == b.origin && i.Timeout == b.timeout() && sha256.Sum256(definition.JSON()) == i.offered
}

// checkMembers refuses a definition in which a member of the protocol has the wrong JSON
// type. A client that decodes lists into typed structures would refuse the whole list for
// it, with the items of all other servers. It returns the definition without members that
// are null: to such clients a null is no string, and servers mean "absent" by it.
// https://modelcontextprotocol.io/specification/2026-07-28/schema
func checkMembers(definition mcp.Object) (mcp.Object, error) {
	var absent []string
	for name, value := range definition.Members {
		if value.IsNull() {
			absent = append(absent, name)
			continue
		}
		fits := true
		switch name {
		case "title", "description", "mimeType":
			_, fits = value.Text()
		case "annotations", "_meta":
			fits = value.IsObject()
		case "icons", "arguments":
			fits = value.IsArray()
		case "size":
			fits = value[0] == '-' || value[0] >= '0' && value[0] <= '9'
		}
		if !fits {
			return definition, refuse("schema", errors.New(name+" has the wrong type"))
		}
	}
	return definition.Without(absent...), nil
}

// define sets the fields that prompts, resources and templates have in common. member is
// the member of the definition that holds the own name: name, uri or uriTemplate. Errors
// are *refusalError.
func (i *Item) define(b *builder, kind Kind, member string, definition mcp.Object, exposed string) error {
	raw := definition.JSON()
	if len(raw) > MaxDefinition && kind != KindSkill {
		return refuse("size", errLarge)
	}
	i.Kind, i.Server, i.Name, i.Exposed, i.Timeout = kind, b.source.Name, definition.Text(member), exposed,
		b.timeout()
	i.origin, i.offered = b.origin, sha256.Sum256(raw)
	checked, err := checkMembers(definition)
	if err != nil {
		return err
	}
	i.Definition = checked.With(member, mcp.String(exposed))
	i.Raw = i.Definition.JSON()
	return nil
}
