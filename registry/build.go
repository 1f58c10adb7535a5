package registry

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Bounds of one source: a hostile or broken server must not fill the memory that all
// tenants share.
const (
	maxItems       = 5_000    // items of one kind
	maxDefinitions = 16 << 20 // bytes of all definitions together
	// bytes of memory that the compiled schemas of all its tools take together, as weigh
	// estimates them: a short text can make a large schema, which takes long to compile
	maxCompiled = 256 << 20
)

var (
	errDuplicate = errors.New(
		"an earlier one of this server has this name or URI, or a name that differs only in case")
	errTogether = fmt.Errorf("the definitions of this server have more than %d bytes together",
		maxDefinitions)
	errCompiled = fmt.Errorf("the schemas of this server take more than %d MiB of memory together",
		maxCompiled>>20)
)

// build makes the section for what a source offers now. before is the source's current
// section: its items are used again where the definition and what else shapes an item did
// not change, so that a refresh does not compile the schemas of thousands of tools again.
// The origin is used again too, unless the prefix differs.
//
// Although the new section is published later, by Replace, calls of items that are in use
// go to the new offer from here on.
func build(s Source, before section) (section, []Refusal) {
	b := &builder{source: s, origin: before.origin.under(s.Name, s.Prefix)}
	next := section{
		origin: b.origin, reached: true, listed: [3]bool{true, true, true},
		extensions: s.Extensions,
	}
	// items of kinds that were not read stay, and whether their lists are known; of tools
	// only the latter, see Source.Unread
	keeps := s.Use != nil && before.origin == b.origin
	for _, kind := range s.Unread {
		next.listed[listOf[kind]] = keeps && before.listed[listOf[kind]]
	}
	known := before.offered(s.Base)
	next.itemSet = b.itemSetOf(s.lists(), known)
	if keeps {
		next.itemSet = next.filled(s.Unread, known)
	}
	next.vary(b)
	// not all servers declare it
	if slices.ContainsFunc(next.tools, func(t *Tool) bool { return t.AppURI != "" }) {
		next.extensions = next.extensions.With(mcp.ExtensionsNamed(mcp.ExtensionApps))
	}
	if s.Use != nil {
		next.completes, next.subscribes = s.Completes, s.Subscribe != nil
		next.timeout = b.timeout()
		next.reads = s.Reads || len(next.items[resources])+len(next.items[templates]) > 0
	}
	b.origin.service.Store(newService(s, &next))
	return next, b.refusals
}

// lists returns what the source lists to clients that declare Base.
func (s *Source) lists() Variant {
	return Variant{
		Tools: s.Tools, Prompts: s.Prompts, Resources: s.Resources, Templates: s.Templates,
		Skills: s.Skills,
	}
}

// withheld returns what any of the lists withholds. A client that another list is for
// must not read it either, as a resource that is in no list.
func (s *Source) withheld() []string {
	all := slices.Clip(s.Withheld)
	for _, variant := range s.Variants {
		all = append(all, variant.Withheld...)
	}
	return all
}

// vary makes what the source lists to clients that declare other extensions, and then
// makes the set of the section what it lists to anybody.
func (s *section) vary(b *builder) {
	if !b.source.Varying.Any() {
		return
	}
	base := s.itemSet
	s.varying, s.lists = b.source.Varying, map[mcp.Extensions]itemSet{b.source.Base: base}
	b.again = true
	refused := b.refusals
	for _, variant := range b.source.Variants {
		b.refusals = nil
		made := b.itemSetOf(variant, base)
		made = made.filled(variant.Unread, base)
		s.lists[variant.Declared] = made
		s.itemSet = s.with(&made)
		refused = append(refused, Unknown(refused, b.refusals)...)
	}
	b.refusals = refused
}

// itemSetOf makes the items of lists. known are those that are used again.
func (b *builder) itemSetOf(lists Variant, known itemSet) itemSet {
	b.lists = lists
	named := func(i int) string { return lists.Tools[i].Definition.Text("name") }
	made := itemSet{tools: makeAll(b, KindTool, len(lists.Tools), named, known.tools, b.tool)}
	if b.source.Use == nil {
		return made
	}
	for i, definitions := range [...][]mcp.Object{
		prompts: lists.Prompts, resources: lists.Resources, templates: lists.Templates, skills: lists.Skills,
	} {
		made.items[i] = b.defined(&defined[i], definitions, known.items[i])
	}
	for _, uri := range b.source.withheld() {
		trimmed := strings.TrimRight(uri, "/. ")
		made.withheld = append(made.withheld, uri, Decode(uri), trimmed, UsualSpelling(uri),
			UsualSpelling(trimmed))
	}
	slices.Sort(made.withheld)
	return made
}

// builder collects the items and refusals of one source during one build.
type builder struct {
	source   Source
	lists    Variant // whose items are made
	again    bool    // what is used again was counted before
	origin   *origin
	bytes    int // of the definitions so far, of all kinds
	compiled int // bytes of memory, as weigh estimates those of tools
	refusals []Refusal
}

func (b *builder) timeout() time.Duration { return cmp.Or(b.source.Timeout, defaultTimeout) }

// refuse notes that an item was left out, with the reason that err carries.
func (b *builder) refuse(kind Kind, name string, err error) {
	reason := "schema"
	if refused, ok := errors.AsType[*refusalError](err); ok {
		reason = refused.reason
	}
	b.refusals = append(b.refusals, Refusal{
		Server: b.source.Name, Kind: kind, Item: mcp.Clip(name, maxToolName), Reason: reason, Err: err,
	})
}

// entry is a *Tool or, for the other kinds, an *Item.
type entry interface {
	comparable
	item() *Item
}

// makeAll makes the items of one kind, of which so many are offered, and orders them by
// exposed name. named returns the own name of the one with index i, and made makes its
// item; known is the item of that own name in the section before, or nil. An item that
// cannot be made, or whose name an earlier one took, is refused alone.
func makeAll[T entry](b *builder, kind Kind, offered int, named func(i int) string, before []T,
	made func(i int, known T) (T, error),
) []T {
	known := make(map[string]T, len(before))
	for _, t := range before {
		known[t.item().Name] = t
	}
	// taken holds own names, folded, and exposed names behind "=". Both must be unique:
	// two own names can be cut to the same exposed one, and names that differ only in
	// case are easily taken for each other.
	taken := make(map[string]bool, 2*offered)
	var items []T
	for i := range offered {
		name := named(i)
		if i == maxItems {
			b.refuse(kind, name, refuse("size",
				fmt.Errorf("this and %d more beyond the %d that one server may offer", offered-i-1,
					maxItems)))
			break
		}
		key := foldedName(kind, name)
		if taken[key] {
			b.refuse(kind, name, refuse("duplicate", errDuplicate))
			continue
		}
		t, err := made(i, known[name])
		size := 0
		if err == nil {
			if !b.again || t != known[name] {
				size = len(t.item().Raw)
			}
			err = b.fits(t.item(), size, taken)
		}
		if err != nil {
			b.refuse(kind, name, err)
			continue
		}
		taken[key], taken["="+t.item().Exposed] = true, true
		b.bytes += size
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
// too large together; size is what it adds.
func (b *builder) fits(i *Item, size int, taken map[string]bool) error {
	switch {
	case taken["="+i.Exposed]:
		return refuse("duplicate", errDuplicate)
	case b.bytes+size > maxDefinitions:
		return refuse("size", errTogether)
	}
	return nil
}

// tool returns the known tool when its definition is the same, with calls now going where
// the offer says; otherwise a new tool.
func (b *builder) tool(i int, known *Tool) (*Tool, error) {
	offer := &b.lists.Tools[i]
	raw := offer.Definition.JSON()
	same := known != nil && known.origin == b.origin && sha256.Sum256(raw) == known.offered
	if !b.source.Own && (!same || !b.again) {
		weight := weigh(raw)
		if b.compiled+weight > maxCompiled {
			return nil, refuse("size", errCompiled)
		}
		b.compiled += weight
	}
	if same {
		return known.with(offer), nil
	}
	return newTool(b.origin, offer)
}

// weigh estimates from the text of a definition how many bytes its compiled schemas take,
// rather too many than too few, without compiling them.
func weigh(definition mcp.RawJSON) int {
	const (
		text      = 16    // for each byte, such as the values of an enum
		subschema = 2_000 // an object, true or false; many objects are none
		class     = 6_000 // of characters, such as \p{L}, which has hundreds of ranges
	)
	count := func(texts ...string) (all int) {
		for _, text := range texts {
			all += bytes.Count(definition, []byte(text))
		}
		return all
	}
	subschemas := count("{", "true", "false")
	// also where JSON escapes one of the characters, which nobody does without a purpose
	classes := count("p{", "P{", `\u005c`, `\u005C`, `\u0050`, `\u0070`, `\u007b`, `\u007B`)
	return text*len(definition) + subschema*subschemas + class*classes
}

// definedKind is a kind of items that are made of a definition alone.
type definedKind struct {
	kind   Kind
	member string // of the definition: it holds the own name
	define func(i *Item, definition mcp.Object) error
}

// The indices in defined.
const (
	prompts = iota
	resources
	templates
	skills
	definedKinds // how many they are
)

var defined = [definedKinds]definedKind{
	prompts:   {KindPrompt, "name", (*Item).definePrompt},
	resources: {KindResource, "uri", (*Item).defineResource},
	templates: {KindTemplate, "uriTemplate", (*Item).defineTemplate},
	skills:    {KindSkill, "uri", (*Item).defineSkill},
}

// defined returns the items of a kind: the known one where building it again would make
// the same one, otherwise a new one.
func (b *builder) defined(k *definedKind, definitions []mcp.Object, before []*Item) []*Item {
	named := func(i int) string { return definitions[i].Text(k.member) }
	return makeAll(b, k.kind, len(definitions), named, before, func(i int, known *Item) (*Item, error) {
		if known != nil && known.origin == b.origin && known.Timeout == b.timeout() &&
			known.offered == sha256.Sum256(definitions[i].JSON()) {
			return known, nil
		}
		made := &Item{
			Kind: k.kind, Server: b.origin.server, Name: named(i), Timeout: b.timeout(), origin: b.origin,
		}
		return made, k.define(made, definitions[i])
	})
}

// newService makes the service of what a source offers now. It takes URIs from the
// section next and not from s, so that items that were left out count as unknown.
func newService(s Source, next *section) *service {
	made := &service{
		use: s.Use, completes: s.Completes, released: s.Released,
		listed: make(map[string]bool, len(next.items[resources])),
		skills: make(map[string][]string, len(next.items[skills])), fresh: s.SkillsFresh,
	}
	if s.Use != nil {
		made.subscribe = s.Subscribe
	}
	for _, skill := range next.items[skills] {
		directory := UsualSpelling(directoryOf(skill.Name))
		made.skills[directory] = append(made.skills[directory], skill.PolicyName())
		made.longest = max(made.longest, len(directory))
	}
	for _, t := range next.items[templates] {
		made.templates = append(made.templates, t.pattern)
	}
	for _, r := range next.items[resources] {
		made.listed[r.Name] = true
	}
	return made
}
