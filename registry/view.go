package registry

import (
	"cmp"
	"errors"
)

// View is what one set of servers offers. It is immutable. It holds the items of servers that are down, too; Lists
// tells whether to show them.
type View struct {
	// Each ordered by server as asked, then by exposed name.
	Tools      []*Tool
	Prompts    []*Prompt
	Resources  []*Resource
	Templates  []*Template
	Collisions []Collision

	tools     map[string]*Tool
	prompts   map[string]*Prompt
	resources map[string]*Resource
	templates map[string]*Template
	order     []string         // the servers
	shelves   map[string]shelf // by server
	open      []string         // servers without a prefix that have resources, or may have for all that is known, in order
}

// Collision names an item that was left out of a view because an earlier server has its name, or because its URI has
// the form of another server's URIs.
type Collision struct {
	Kind                   Kind
	Exposed, Kept, Dropped string // Kept, Dropped: servers
}

// ErrNotFound is the error for a name that is not in the view.
var ErrNotFound = errors.New("no such item")

func (c *Catalogue) newView(servers []string) *View {
	v := &View{
		tools: map[string]*Tool{}, prompts: map[string]*Prompt{}, resources: map[string]*Resource{},
		templates: map[string]*Template{}, shelves: make(map[string]shelf, len(servers)),
	}
	for _, server := range servers {
		if _, twice := v.shelves[server]; twice {
			continue
		}
		s := c.shelves[server]
		v.shelves[server] = s
		v.order = append(v.order, server)
		if (s.reads || s.isUnreached()) && s.origin.prefix == "" {
			v.open = append(v.open, server)
		}
	}
	for _, server := range v.order {
		s := v.shelves[server]
		v.Tools = arrange(v, v.Tools, s.tools, v.tools)
		v.Prompts = arrange(v, v.Prompts, s.prompts, v.prompts)
		v.Resources = arrange(v, v.Resources, s.resources, v.resources)
		v.Templates = arrange(v, v.Templates, s.templates, v.templates)
	}
	return v
}

// arrange appends the items of one server to those that stand before it.
func arrange[T entry](v *View, list, items []T, byName map[string]T) []T {
	for _, t := range items {
		i := t.item()
		kept := v.formOf(i)
		if earlier, ok := byName[i.Exposed]; ok {
			kept = earlier.item().Server
		}
		if kept != "" {
			v.Collisions = append(v.Collisions, Collision{Kind: i.Kind, Exposed: i.Exposed, Kept: kept, Dropped: i.Server})
			continue
		}
		byName[i.Exposed] = t
		list = append(list, t)
	}
	return list
}

// formOf returns the other server of the view whose form the URI of a resource or template has; "" when there is none.
func (v *View) formOf(i *Item) string {
	if i.Kind != KindResource && i.Kind != KindTemplate {
		return ""
	}
	server, _, ok := fromForm(i.Exposed)
	if !ok || server == i.Server || !v.prefixes(server) {
		return ""
	}
	return server
}

// prefixes tells whether a server of the view exposes its URIs in a form of their own.
func (v *View) prefixes(server string) bool {
	s := v.shelves[server]
	return s.origin != nil && s.origin.prefix != ""
}

// Announced returns how many changes of its list of that kind a server of the view told of. Resources and templates
// are one list.
func (v *View) Announced(server string, kind Kind) uint64 {
	return v.shelves[server].announced[listOf(kind)]
}

// Listed tells whether a server's list of that kind is known. Where it is not, the server is away or has just come, and
// what it has cannot be told from what it has not. Resources and templates are one list.
func (v *View) Listed(server string, kind Kind) bool { return v.shelves[server].listed[listOf(kind)] }

// Reads tells whether a server of the view has resources, which may be more than it lists.
func (v *View) Reads(server string) bool { return v.shelves[server].reads }

// Lookup returns the tool with that exposed name. The error is ErrNotFound.
func (v *View) Lookup(name string) (*Tool, error) { return find(v.tools, name) }

// Prompt returns the prompt with that exposed name. The error is ErrNotFound.
func (v *View) Prompt(name string) (*Prompt, error) { return find(v.prompts, name) }

// Template returns the template with that exposed text. The error is ErrNotFound.
func (v *View) Template(uriTemplate string) (*Template, error) { return find(v.templates, uriTemplate) }

// Resource returns the resource with that exposed URI: one that is listed, or one in no list that belongs to a server
// by its form, by a template, or because only one server can have it. Of several templates that match, the one with the
// most literal text counts, and of equal ones that of the earlier server; so many templates that matching them takes too
// long are not all asked. A URI in no list is unknown when a server may read it as another URI, which a policy may deny.
// The error is ErrNotFound.
func (v *View) Resource(uri string) (*Resource, error) {
	if listed, err := find(v.resources, uri); err == nil {
		return listed, nil
	}
	if server, own, ok := fromForm(uri); ok && v.prefixes(server) {
		return v.unlisted(server, own, uri)
	}
	if t := v.templateOf(uri); t != nil {
		return v.unlisted(t.Server, uri, uri)
	}
	if len(v.open) == 1 {
		return v.unlisted(v.open[0], uri, uri)
	}
	return nil, ErrNotFound
}

// templateOf returns the template of a server without prefix that says most about the URI, nil when none matches.
func (v *View) templateOf(uri string) *Template {
	var best *Template
	work := maxMatching
	for _, t := range v.Templates {
		if t.origin.prefix != "" || best != nil && t.pattern.literal <= best.pattern.literal {
			continue
		}
		if work -= t.pattern.work(uri); work < 0 {
			return best
		}
		if t.pattern.matches(uri) {
			best = t
		}
	}
	return best
}

// unlisted makes a resource that is in no list.
func (v *View) unlisted(server, own, exposed string) (*Resource, error) {
	s := v.shelves[server]
	if !s.reads && !s.isUnreached() || !isPlain(own) {
		return nil, ErrNotFound
	}
	r := &Resource{}
	r.Kind, r.Server, r.Name, r.Exposed, r.Timeout, r.origin = KindResource, server, own, exposed, cmp.Or(s.timeout, defaultTimeout), s.origin
	return r, nil
}

func find[T any](items map[string]T, name string) (T, error) {
	if item, ok := items[name]; ok {
		return item, nil
	}
	var none T
	return none, ErrNotFound
}
