package registry

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Owned returns the resources of servers with a prefix that a URI may mean which is one
// of a server's own, as a view or a file of a skill names it: those of the servers that
// list it or, if none does, of all that may have it. It is for URIs that are no exposed
// form of another server.
func (v *View) Owned(uri string) []*Item {
	if !keepsScheme(uri) {
		return nil
	}
	owned := v.listedAs(resources, uri)
	if len(owned) > 0 {
		return owned
	}
	for _, server := range v.order {
		if s := v.sections[server]; v.prefixes(server) && s.extensions.Any() && s.reads {
			if r, err := v.unlisted(server, uri, s.origin.exposed(uri)); err == nil {
				owned = append(owned, r)
			}
		}
	}
	return owned
}

// listedAs returns the listed items of a kind, by its index in defined, whose own URI at
// a server with a prefix is that.
func (v *View) listedAs(kind int, own string) (items []*Item) {
	for _, server := range v.order {
		if !v.prefixes(server) {
			continue
		}
		if known, err := find(v.items[kind], v.sections[server].origin.exposed(own)); err == nil {
			items = append(items, known)
		}
	}
	return items
}

// Resource returns the resource with that exposed URI. Servers may have resources that
// they do not list, so it tries in this order
//
//  1. the listed resources;
//  2. for a URI that begins like the exposed URIs of a server of the view (mcp.NAME+,
//     ui://NAME/), that server alone; one that Owned has for servers with a prefix is not
//     found here;
//  3. the templates of servers without a prefix: of those that match, the one with the
//     most literal text, and of equal ones that of the earlier server. No more templates
//     are tried when matching has cost maxMatching;
//  4. the one server without a prefix that has resources or may have some. When there are
//     several, nobody can tell whose URI it is.
//
// A URI in no list must also be plain (see IsPlain): a server could read any other one as
// a second URI, which the policy may deny. The error is ErrNotFound.
func (v *View) Resource(uri string) (*Item, error) {
	if listed, err := find(v.items[resources], uri); err == nil {
		return listed, nil
	}
	if server, own, ok := fromForm(uri); ok && v.prefixes(server) {
		if itself, err := find(v.items[resources], v.sections[server].origin.exposed(uri)); err == nil &&
			keepsScheme(uri) {
			return itself, nil // its own URI begins with its own name
		}
		return v.unlisted(server, own, uri)
	}
	if keepsScheme(uri) && len(v.Owned(uri)) > 0 {
		return nil, ErrNotFound // it is for the caller of Owned to say which
	}
	if t := v.templateOf(uri); t != nil {
		return v.unlisted(t.Server, uri, uri)
	}
	if len(v.open) == 1 {
		return v.unlisted(v.open[0], uri, uri)
	}
	return nil, ErrNotFound
}

// templateOf returns the matching template of a server without a prefix that has the most
// literal text, nil when none matches.
func (v *View) templateOf(uri string) *Item {
	var best *Item
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

// unlisted makes a resource that the server may have although no list has it: the server
// itself decides when it is read. One that the server lists and that was withheld is
// unknown, however it is spelt.
func (v *View) unlisted(server, own, exposed string) (*Item, error) {
	s := v.sections[server]
	if s.withholds(own) || !s.reads && !s.isUnreached() || !IsPlain(own) {
		return nil, ErrNotFound
	}
	return s.guess(KindResource, own, exposed), nil
}

// Unreached returns a guess at the tool, prompt or template of that exposed name: an item
// of a server of the view that was never reached, or whose lists for the user are not
// known, and whose prefix the name begins with. The item has no definition, and using it
// fails with a *DownError for as long as the server is down. Unreached returns nil when
// no such server has that prefix; names of a server without a prefix cannot be guessed.
// For resources, View.Resource does the same.
func (v *View) Unreached(kind Kind, exposed string) *Item {
	if kind == KindTemplate {
		server, own, ok := fromForm(exposed)
		if s := v.sections[server]; ok && s.isUnreached() && s.origin.prefix != "" && own != "" {
			return s.guess(kind, own, exposed)
		}
		return nil
	}
	if len(exposed) > maxExposed {
		return nil
	}
	for _, server := range v.order {
		s := v.sections[server]
		if !s.isUnreached() && !s.isUnlisted(kind) || s.origin.prefix == "" {
			continue
		}
		if own, ok := strings.CutPrefix(exposed, s.origin.prefix+separator); ok && own != "" {
			return s.guess(kind, own, exposed)
		}
	}
	return nil
}

// Skill returns the skill with that exposed URI. A server answers for skills that it does
// not list, too: then it is found as a resource would be, at a server that has skills.
// The error is ErrNotFound.
func (v *View) Skill(uri string) (*Item, error) {
	if listed, err := find(v.items[skills], uri); err == nil {
		return listed, nil
	}
	if server, own, ok := fromForm(uri); ok && v.prefixes(server) {
		if itself, err := find(v.items[skills], v.sections[server].origin.exposed(uri)); err == nil {
			return itself, nil // its own URI begins with its own name
		}
		return v.unlistedSkill(server, own)
	}
	if len(v.OwnedSkills(uri)) > 0 {
		return nil, ErrNotFound // it is for the caller of OwnedSkills to say which
	}
	only := slices.DeleteFunc(slices.Clone(v.open),
		func(server string) bool { return !v.Extensions(server).Has(mcp.ExtensionSkills) })
	if len(only) != 1 {
		return nil, ErrNotFound
	}
	return v.unlistedSkill(only[0], uri)
}

// OwnedSkills returns the listed skills of servers with a prefix of which that is the own
// URI, as a file of a skill names another.
func (v *View) OwnedSkills(uri string) []*Item { return v.listedAs(skills, uri) }

// unlistedSkill makes a skill that the server may have although it does not list it.
func (v *View) unlistedSkill(server, own string) (*Item, error) {
	s := v.sections[server]
	if !s.extensions.Has(mcp.ExtensionSkills) || !IsPlain(own) {
		return nil, ErrNotFound
	}
	return s.guess(KindSkill, own, s.origin.exposed(own)), nil
}

// guess makes an item without a definition, for a name that may be one of the server's.
func (s *section) guess(kind Kind, own, exposed string) *Item {
	return &Item{
		Kind: kind, Server: s.origin.server, Name: own, Exposed: exposed,
		Timeout: cmp.Or(s.timeout, defaultTimeout), origin: s.origin,
	}
}
