package registry

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Catalogue is one state of the registry. It is immutable.
type Catalogue struct {
	shelves  map[string]shelf // by server
	replaced chan struct{}    // closed when there is a newer one
	views    sync.Map         // of *View, by viewKey
}

// shelf is what one server has in a catalogue.
type shelf struct {
	origin *origin
	// Each ordered by exposed name.
	tools     []*Tool
	prompts   []*Prompt
	resources []*Resource
	templates []*Template

	listed                       [3]bool // by listOf: the list was read, be it empty
	reads, completes, subscribes bool
	timeout                      time.Duration // of resources in no list
	announced                    [3]uint64     // changes of its lists that the server told of
	reached                      bool          // the server has offered something, be it nothing; false: it is lost
	unlisted                     bool          // the server is lost for so long that its items are in no list
}

// listOf returns the index of the list that a kind is in.
func listOf(kind Kind) int {
	switch kind {
	case KindTool:
		return 0
	case KindPrompt:
		return 1
	case KindResource, KindTemplate:
	}
	return 2
}

// empty tells whether nothing is known of the server, not even that it is lost.
func (s *shelf) empty() bool { return s.origin == nil }

func (s *shelf) equal(other *shelf) bool {
	return s.origin == other.origin && s.listed == other.listed && s.reads == other.reads && s.completes == other.completes &&
		s.subscribes == other.subscribes && s.timeout == other.timeout && s.announced == other.announced &&
		s.reached == other.reached && s.unlisted == other.unlisted &&
		slices.Equal(s.tools, other.tools) && slices.Equal(s.prompts, other.prompts) &&
		slices.Equal(s.resources, other.resources) && slices.Equal(s.templates, other.templates)
}

func newCatalogue(shelves map[string]shelf) *Catalogue {
	if shelves == nil {
		shelves = map[string]shelf{}
	}
	return &Catalogue{shelves: shelves, replaced: make(chan struct{})}
}

// View returns the items of the named servers. Where two items of a kind have one exposed name, the server that stands
// first keeps it. Views are interned per catalogue: the same servers give the same *View.
func (c *Catalogue) View(servers []string) *View {
	key := viewKey(servers)
	if v, ok := c.views.Load(key); ok {
		return v.(*View)
	}
	v, _ := c.views.LoadOrStore(key, c.newView(servers))
	return v.(*View)
}

// viewKey joins names so that different lists have different keys, whatever the names hold.
func viewKey(servers []string) string {
	var key strings.Builder
	for _, server := range servers {
		key.WriteString(strconv.Itoa(len(server)))
		key.WriteByte(':')
		key.WriteString(server)
	}
	return key.String()
}
