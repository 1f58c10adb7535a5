package registry

import (
	"errors"
	"strconv"
	"strings"
	"sync"
)

// Catalogue is one state of the registry. It is immutable.
type Catalogue struct {
	shelves  map[string]shelf // by server
	replaced chan struct{}    // closed when there is a newer one
	views    sync.Map         // of *View, by viewKey
}

// shelf is what one server has in a catalogue.
type shelf struct {
	tools     []*Tool // ordered by exposed name
	announced uint64  // changes of its list that the server told of
}

func newCatalogue(shelves map[string]shelf) *Catalogue {
	if shelves == nil {
		shelves = map[string]shelf{}
	}
	return &Catalogue{shelves: shelves, replaced: make(chan struct{})}
}

// View returns the tools of the named servers. Where two tools have one exposed name, the server that stands first
// keeps it. Views are interned per catalogue: the same servers give the same *View.
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

func (c *Catalogue) newView(servers []string) *View {
	v := &View{byName: map[string]*Tool{}, announced: make(map[string]uint64, len(servers))}
	seen := make(map[string]bool, len(servers))
	for _, server := range servers {
		if seen[server] {
			continue
		}
		seen[server] = true
		v.announced[server] = c.shelves[server].announced
		for _, t := range c.shelves[server].tools {
			if kept, ok := v.byName[t.Exposed]; ok {
				v.Collisions = append(v.Collisions, Collision{Kind: KindTool, Exposed: t.Exposed, Kept: kept.Server, Dropped: server})
				continue
			}
			v.byName[t.Exposed] = t
			v.Tools = append(v.Tools, t)
		}
	}
	return v
}

// View is what one set of servers offers. It is immutable.
type View struct {
	// Each ordered by server as asked, then by exposed name.
	Tools      []*Tool
	Prompts    []*Prompt
	Resources  []*Resource
	Templates  []*Template
	Collisions []Collision
	byName     map[string]*Tool
	announced  map[string]uint64 // by server
}

// Announced returns how many changes of its list a server of the view told of.
func (v *View) Announced(server string) uint64 { return v.announced[server] }

// Collision names an item that was left out of a view because an earlier server has its name.
type Collision struct {
	Kind                   Kind
	Exposed, Kept, Dropped string // Kept, Dropped: servers
}

// ErrNotFound is the error for a name that is not in the view.
var ErrNotFound = errors.New("no such item")

// Lookup returns the tool with that exposed name. The error is ErrNotFound.
func (v *View) Lookup(name string) (*Tool, error) {
	if t, ok := v.byName[name]; ok {
		return t, nil
	}
	return nil, ErrNotFound
}
