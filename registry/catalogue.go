package registry

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Catalogue is one state of the registry: the items of all servers. It is immutable and
// safe for concurrent use.
type Catalogue struct {
	shelves  map[string]shelf // by server name
	replaced chan struct{}    // closed when a newer catalogue is published
	views    sync.Map         // *View by viewKey; grows with the different sets of servers that tenants have
}

// shelf is what one server has in a catalogue. It is a value, and nothing that it refers
// to is modified, except the atomic pointers of its origin and items. The zero shelf
// belongs to a server of which nothing is known.
type shelf struct {
	origin *origin
	// The items of each kind are ordered by exposed name.
	tools     []*Tool
	prompts   []*Prompt
	resources []*Resource
	templates []*Template
	skills    []*Skill

	listed                       [3]bool // by listOf: the list was read, even if it was empty
	reads, completes, subscribes bool    // as in Source
	// own URIs of resources that cannot be read, as in Source; sorted
	withheld []string
	timeout  time.Duration // limit of one use of a resource that is in no list
	// by listOf: how many changes of the list the server announced
	announced  [3]uint64
	extensions mcp.Extensions // that the server declares
	reached    bool           // Replace was called; false: the server was only ever lost
	// the server has been lost for so long that its items are in no list
	unlisted bool
}

// listOf returns the index of a kind in listed and announced. Resources, templates and
// skills share one, because the protocol has one notification for changes of both.
func listOf(kind Kind) int {
	switch kind {
	case KindTool:
		return 0
	case KindPrompt:
		return 1
	case KindResource, KindTemplate, KindSkill:
	}
	return 2
}

// empty tells whether nothing is known of the server, not even that it is lost.
func (s *shelf) empty() bool { return s.origin == nil }

// equal tells whether a catalogue with other in the place of s would be the same for
// every reader. Items are compared by address: building uses an item again when its
// definition did not change.
func (s *shelf) equal(other *shelf) bool {
	return s.origin == other.origin && s.listed == other.listed && s.reads == other.reads &&
		s.completes == other.completes &&
		s.subscribes == other.subscribes && s.timeout == other.timeout && s.announced == other.announced &&
		s.reached == other.reached && s.extensions == other.extensions && s.unlisted == other.unlisted &&
		slices.Equal(s.tools, other.tools) && slices.Equal(s.prompts, other.prompts) &&
		slices.Equal(s.resources, other.resources) && slices.Equal(s.templates, other.templates) &&
		slices.Equal(s.skills, other.skills) &&
		slices.Equal(s.withheld, other.withheld)
}

func newCatalogue(shelves map[string]shelf) *Catalogue {
	if shelves == nil {
		shelves = map[string]shelf{}
	}
	return &Catalogue{shelves: shelves, replaced: make(chan struct{})}
}

// View returns the items of the named servers. Where two items of a kind have the same
// exposed name, the server that comes first in the list keeps it. A server may be
// unknown; it then has no items. For the same list the same *View is returned, so that
// tenants with the same servers share its memory.
func (c *Catalogue) View(servers []string) *View {
	key := viewKey(servers)
	if v, ok := c.views.Load(key); ok {
		return v.(*View)
	}
	v, _ := c.views.LoadOrStore(key, c.newView(servers))
	return v.(*View)
}

// Unenforced says, for operators, what is not enforced of the schemas of a server's
// tools; see Tool.Unenforced.
func (c *Catalogue) Unenforced(server string) []string {
	var all []string
	for _, t := range c.shelves[server].tools {
		for _, gap := range t.Unenforced {
			all = append(all, fmt.Sprintf("%s %q: %s", t.Kind, t.Name, gap))
		}
	}
	return all
}

// viewKey joins names with their lengths before them, so that different lists have
// different keys whatever characters the names have: one tenant must never get the view
// of another.
func viewKey(servers []string) string {
	var key strings.Builder
	for _, server := range servers {
		key.WriteString(strconv.Itoa(len(server)))
		key.WriteByte(':')
		key.WriteString(server)
	}
	return key.String()
}
