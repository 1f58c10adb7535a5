package registry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Catalogue is one state of the registry: the items of all servers. It is immutable and
// safe for concurrent use.
type Catalogue struct {
	sections map[string]section // by server name
	replaced chan struct{}      // closed when a newer catalogue is published
	views    sync.Map           // *View by names of servers; grows with the sets of servers that tenants have
}

// section is what one server has in a catalogue. It is a value, and nothing that it
// refers to is modified, except the atomic pointers of its origin and items. The zero
// section belongs to a server of which nothing is known.
type section struct {
	origin  *origin
	itemSet // whatever the server lists to anybody
	// the extensions on which its lists depend, and what it lists to clients by which of
	// them they declare; none mostly
	varying mcp.Extensions
	lists   map[mcp.Extensions]itemSet

	listed                       [3]bool       // by listOf: the list was read, even if it was empty
	reads, completes, subscribes bool          // as in Source
	timeout                      time.Duration // limit of one use of a resource that is in no list
	// by listOf: how many changes of the list the server announced
	announced  [3]uint64
	extensions mcp.Extensions // that the server declares
	reached    bool           // Replace was called; false: the server was only ever lost
	// the server has been lost for so long that its items are in no list
	unlisted bool
	personal Personal // as ReplacePersonal has it; nil: everybody is offered the same
	renewed  uint64   // how often Renew was called
}

// Personal says what a server offers to each user, where its lists depend on who asks.
// Its methods are safe for concurrent use, and of a type that can be compared.
//
//	ReplacePersonal ──▶ Personal.Lists(user) ──▶ Catalogue.ViewOf ──▶ a view of that user
//	Registry.Renew  ◀── the lists of somebody differ from those before
type Personal interface {
	// Lists returns what the server offers to p, and reads it if it is not known or not
	// fresh. When ctx ends first, or it takes long, Lists returns what is known. nil:
	// nothing is; the error says why, if it was tried.
	Lists(ctx context.Context, p *auth.Principal) (*Lists, error)
	// Known returns what Lists has found last, without a request.
	Known(p *auth.Principal) *Lists
}

// PersonalServer is a server whose lists depend on who asks.
type PersonalServer struct {
	Name string
	Personal
}

// Lists are what a server offers to a user, or to several who are offered the same. They
// are immutable.
type Lists struct {
	section section
	number  uint64
	bytes   int64
}

// itemSet is what a server has in a section. The items of each kind are ordered by
// exposed name.
//
// A server may list other items to clients with an extension than to those without: a
// tool with a view for hosts of apps, and in its place one of text for all others. So its
// section has one set of items for each set of extensions on which its lists depend, and
// beside them all items together:
//
//	section.itemSet: whatever it lists to anybody    section.lists[set]: … to such clients
//	       |                                                |
//	       v                                                v
//	Catalogue.View(servers)                          View.For(extensions of a client)
//
// Where nothing depends on them, which is nearly everywhere, there is one set, and one
// view for all clients.
type itemSet struct {
	tools []*Tool
	items [definedKinds][]*Item // as in defined
	// own URIs of resources that cannot be read, as in Source, and their usual spellings;
	// sorted
	withheld []string
}

// withholds tells whether a server may read an own URI as one that cannot be read.
func (s *itemSet) withholds(uri string) bool {
	if len(s.withheld) == 0 {
		return false
	}
	for spelling := range Spellings(uri) {
		if _, found := slices.BinarySearch(s.withheld, spelling); found {
			return true
		}
	}
	return false
}

// equal tells whether two sets are the same for every reader. Items are compared by
// address: building uses an item again when its definition did not change.
func (s *itemSet) equal(other *itemSet) bool {
	return slices.Equal(s.tools, other.tools) && slices.Equal(s.withheld, other.withheld) &&
		slices.EqualFunc(s.items[:], other.items[:], slices.Equal[[]*Item])
}

// filled returns the set with the items of those kinds from known; tools stay.
func (s *itemSet) filled(kinds []Kind, known itemSet) itemSet {
	whole := *s
	for i := range defined {
		if slices.Contains(kinds, defined[i].kind) {
			whole.items[i] = known.items[i]
		}
	}
	if slices.Contains(kinds, KindResource) {
		whole.withheld = known.withheld
	}
	return whole
}

// with returns all items of both; where both have one of a name, that of s.
func (s *itemSet) with(other *itemSet) itemSet {
	whole := itemSet{tools: joined(s.tools, other.tools), withheld: s.withheld}
	for i := range defined {
		whole.items[i] = joined(s.items[i], other.items[i])
	}
	return whole
}

// joined returns items and those of more whose exposed names are not among them.
func joined[T entry](items, more []T) []T {
	whole := slices.Clip(items)
	for _, one := range more {
		index, found := slices.BinarySearchFunc(whole, one.item().Exposed,
			func(t T, exposed string) int { return strings.Compare(t.item().Exposed, exposed) })
		if !found {
			whole = slices.Insert(whole, index, one)
		}
	}
	return whole
}

// offered returns what is listed to clients that declare this of the extensions.
func (s *section) offered(declared mcp.Extensions) itemSet {
	if known, ok := s.lists[declared]; ok {
		return known
	}
	return s.itemSet
}

// listOf has the index of each kind in listed and announced. Resources, templates and
// skills share one, because the protocol has one notification for changes of all three.
var listOf = map[Kind]int{KindTool: 0, KindPrompt: 1, KindResource: 2, KindTemplate: 2, KindSkill: 2}

// empty tells whether nothing is known of the server, not even that it is lost.
func (s *section) empty() bool { return s.origin == nil }

// equal tells whether a catalogue with other in the place of s would be the same for
// every reader.
func (s *section) equal(other *section) bool {
	return s.origin == other.origin && s.listed == other.listed && s.reads == other.reads &&
		s.completes == other.completes &&
		s.subscribes == other.subscribes && s.timeout == other.timeout && s.announced == other.announced &&
		s.reached == other.reached && s.extensions == other.extensions && s.unlisted == other.unlisted &&
		s.varying == other.varying && s.itemSet.equal(&other.itemSet) &&
		s.personal == other.personal &&
		s.renewed == other.renewed &&
		maps.EqualFunc(s.lists, other.lists, func(a, b itemSet) bool { return a.equal(&b) })
}

// offering returns the section with lists in place of its own, nil: as it is. What the
// server announced and whether it is there is the same for everybody.
func (s *section) offering(own *Lists) section {
	if own == nil {
		return *s
	}
	next := own.section
	next.announced, next.reached, next.unlisted = s.announced, s.reached, s.unlisted
	next.personal, next.renewed = s.personal, s.renewed
	return next
}

func newCatalogue(sections map[string]section) *Catalogue {
	return &Catalogue{sections: sections, replaced: make(chan struct{})}
}

// Offered is what operators are told of what a server has in the catalogue.
type Offered struct {
	// how many of each, whichever clients they are listed to
	Tools, Prompts, Resources, Templates, Skills int
	// Unenforced says what of the tools' schemas is not enforced, as Tool.Unenforced.
	Unenforced []string
}

// Offered returns that of a server.
func (c *Catalogue) Offered(server string) Offered {
	s := c.sections[server]
	offered := Offered{
		Tools: len(s.tools), Prompts: len(s.items[prompts]), Resources: len(s.items[resources]),
		Templates: len(s.items[templates]), Skills: len(s.items[skills]),
	}
	for _, t := range s.tools {
		for _, gap := range t.Unenforced {
			offered.Unenforced = append(offered.Unenforced, fmt.Sprintf("%s %q: %s", t.Kind, t.Name, gap))
		}
	}
	return offered
}
