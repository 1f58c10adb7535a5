package registry

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// View is what one list of servers offers, with name conflicts resolved. It is immutable
// and shared: do not modify it. It has the items of servers that are down, too, so that
// their use fails with a *DownError; Lists tells whether to show them.
type View struct {
	// The items of each kind are ordered by server, as in the list, and then by exposed
	// name.
	Tools      []*Tool
	Prompts    []*Item
	Resources  []*Item
	Templates  []*Item
	Skills     []*Item
	Collisions []Collision
	// Personal are the servers whose lists depend on who calls. Without ViewOf, the view
	// has nothing of them.
	Personal []PersonalServer

	// The same items by exposed name.
	tools map[string]*Tool
	items [definedKinds]map[string]*Item // as in defined

	appURIs  []string           // of the views of apps
	order    []string           // the servers as listed, each once
	sections map[string]section // by server
	// open are the servers without a prefix that have resources, or were never reached
	// and so may have some. A URI in no list and of no template may belong to any of
	// them.
	open []string

	catalogue *Catalogue     // that it is of
	varying   mcp.Extensions // on which lists of its servers depend; none: see For
	own       map[string]*Lists
	variants  sync.Map // mcp.Extensions → *View, as For returns them
}

// Collision names an item that was left out of a view. Either a server earlier in the
// list has an item of that kind and exposed name, or the URI begins like the exposed URIs
// of another server, which could then be impersonated.
type Collision struct {
	Kind                     Kind
	Exposed, Winner, Dropped string // Winner and Dropped are the servers that have the name and that lost it
}

// ErrNotFound is the error for a name or URI that is not in the view.
var ErrNotFound = errors.New("no such item")

// newView makes the view that View interns, or one of ViewOf. A server that the list
// names twice counts where it stands first. declared are the extensions of the clients
// whose view it is; nil: it is a view of all that is listed to anybody. own are the lists
// of a user, by servers that have them; nil: it is the view of nobody in particular.
func (c *Catalogue) newView(servers []string, declared *mcp.Extensions, own map[string]*Lists) *View {
	v := &View{
		catalogue: c, own: own,
		tools: map[string]*Tool{}, items: [definedKinds]map[string]*Item{{}, {}, {}, {}},
		sections: make(map[string]section, len(servers)),
	}
	for _, server := range servers {
		if _, twice := v.sections[server]; twice {
			continue
		}
		s := c.sections[server]
		if s.personal != nil {
			v.Personal = append(v.Personal, PersonalServer{server, s.personal})
			s = s.offering(own[server])
		}
		if declared == nil {
			v.varying = v.varying.With(s.varying)
		} else if s.varying.Any() {
			s.itemSet = s.offered(declared.Among(s.varying))
		}
		v.sections[server] = s
		v.order = append(v.order, server)
		if (s.reads || s.isUnreached()) && s.origin.prefix == "" {
			v.open = append(v.open, server)
		}
	}
	for _, server := range v.order {
		s := v.sections[server]
		v.Tools = arrange(v, v.Tools, s.tools, v.tools)
		for i, list := range [definedKinds]*[]*Item{&v.Prompts, &v.Resources, &v.Templates, &v.Skills} {
			*list = arrange(v, *list, s.items[i], v.items[i])
		}
	}
	for _, tool := range v.Tools {
		if tool.AppURI != "" && !slices.Contains(v.appURIs, tool.AppURI) {
			v.appURIs = append(v.appURIs, tool.AppURI)
		}
	}
	return v
}

// For returns the view of clients that declare these extensions: of each server what it
// lists to such clients. Where no list depends on them, that is v.
func (v *View) For(declared mcp.Extensions) *View {
	if !v.varying.Any() {
		return v
	}
	set := declared.Among(v.varying)
	if view, ok := v.variants.Load(set); ok {
		return view.(*View)
	}
	view, _ := v.variants.LoadOrStore(set, v.catalogue.newView(v.order, &set, v.own))
	return view.(*View)
}

// Variants returns the views of clients that declare each set of the extensions on which
// lists of v depend; none where no list does.
func (v *View) Variants() []*View {
	if !v.varying.Any() {
		return nil
	}
	var all []*View
	for _, set := range v.varying.Sets() {
		all = append(all, v.For(set))
	}
	return all
}

// arrange appends the items of one server to list, the items of the servers before it,
// and enters them in byName. Items that collide become v.Collisions instead.
func arrange[T entry](v *View, list, items []T, byName map[string]T) []T {
	for _, t := range items {
		i := t.item()
		form := v.formOf(i)
		if earlier, ok := byName[i.Exposed]; ok {
			form = earlier.item().Server
		}
		if form != "" {
			v.Collisions = append(v.Collisions, Collision{
				Kind: i.Kind, Exposed: i.Exposed, Winner: form,
				Dropped: i.Server,
			})
			continue
		}
		byName[i.Exposed] = t
		list = append(list, t)
	}
	return list
}

// formOf returns the other server of the view to whose exposed URIs the URI of a resource
// or template seems to belong, "" when there is none and for other kinds of items.
func (v *View) formOf(i *Item) string {
	if i.Kind != KindResource && i.Kind != KindTemplate && i.Kind != KindSkill {
		return ""
	}
	server, _, ok := fromForm(i.Exposed)
	if !ok || server == i.Server || !v.prefixes(server) {
		return ""
	}
	return server
}

// AppURIs returns the exposed URIs of the views of its apps, each once: do not modify it.
func (v *View) AppURIs() []string { return v.appURIs }

// prefixes tells whether a server of the view has a prefix, so that its exposed URIs
// begin with formStart.
func (v *View) prefixes(server string) bool {
	s := v.sections[server]
	return s.origin != nil && s.origin.prefix != ""
}

// Beginning returns what the names of a server's items of that kind begin with in
// patterns of a policy, see Item.PolicyName. It is "" for a server of which nothing is
// known, as for one without a prefix: it may have items of any name.
func (v *View) Beginning(kind Kind, server string) string {
	switch s := v.sections[server]; {
	case kind == KindResource, kind == KindTemplate, kind == KindSkill:
		return server + ":"
	case s.origin == nil:
		return ""
	default:
		return Beginning(s.origin.prefix)
	}
}

// Announced returns how many changes of its list of that kind a server has announced.
// Only a difference between two values means something: the list changed between them.
// Resources and templates are one list.
func (v *View) Announced(server string, kind Kind) uint64 {
	return v.sections[server].announced[listOf[kind]]
}

// Listed tells whether a server's list of that kind is known, even if it is empty. When
// it is not, nobody can say that a name does not exist at the server. Resources and
// templates are one list.
func (v *View) Listed(server string, kind Kind) bool { return v.sections[server].listed[listOf[kind]] }

// Extensions returns those that a server of the view declares.
func (v *View) Extensions(server string) mcp.Extensions { return v.sections[server].extensions }

// Reads tells whether a server of the view has resources. It may have more than it lists.
func (v *View) Reads(server string) bool { return v.sections[server].reads }

// Lookup returns the tool with that exposed name. The error is ErrNotFound.
func (v *View) Lookup(name string) (*Tool, error) { return find(v.tools, name) }

// Prompt returns the prompt with that exposed name. The error is ErrNotFound.
func (v *View) Prompt(name string) (*Item, error) { return find(v.items[prompts], name) }

// Template returns the template with that exposed URI template. The error is ErrNotFound.
func (v *View) Template(uriTemplate string) (*Item, error) {
	return find(v.items[templates], uriTemplate)
}

func find[T any](items map[string]T, name string) (T, error) {
	item, ok := items[name]
	if !ok {
		return item, ErrNotFound
	}
	return item, nil
}

// Lists tells whether items of a server belong in lists. Those of a server that was
// unlisted do not.
func (v *View) Lists(server string) bool { return !v.sections[server].unlisted }

// View returns the items of the named servers. Where two items of a kind have the same
// exposed name, the server that comes first in the list keeps it. A server may be
// unknown; it then has no items. For the same list the same *View is returned, so that
// tenants with the same servers share its memory.
func (c *Catalogue) View(servers []string) *View {
	key := fmt.Sprintf("%q", servers) // quoted: one tenant must never get the view of another
	if v, ok := c.views.Load(key); ok {
		return v.(*View)
	}
	v, _ := c.views.LoadOrStore(key, c.newView(servers, nil, nil))
	return v.(*View)
}

// isUnreached tells whether the server is known to be down and has never offered
// anything.
func (s *section) isUnreached() bool { return s.origin != nil && !s.reached }

// isUnlisted tells whether the server has lists for each user, and that of the kind is
// not known.
func (s *section) isUnlisted(kind Kind) bool { return s.personal != nil && !s.listed[listOf[kind]] }
