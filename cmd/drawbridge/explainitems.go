package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// tellItems writes what a caller may use, and of which servers that is not known here.
func (w *walk) tellItems(g *gateway.Gateway, p auth.Principal) error {
	items, err := g.Usable(p)
	if err != nil {
		return err
	}
	var kinds []registry.Kind // in the order of the items
	counts := map[registry.Kind]int{}
	for _, item := range items {
		w.line(string(item.Kind), "%s", item.Exposed)
		if counts[item.Kind]++; counts[item.Kind] == 1 {
			kinds = append(kinds, item.Kind)
		}
	}
	var said []string
	for _, kind := range kinds {
		said = append(said, count(counts[kind], string(kind)))
	}
	w.putFirst("may use " + cmp.Or(strings.Join(said, ", "), "nothing that is known here"))
	w.tellUnknown(p.TenantID)
	return nil
}

// tellUnknown names the servers of a tenant whose items are not known here.
func (w *walk) tellUnknown(tenant string) {
	of := slices.IndexFunc(w.cfg.Tenants, func(t gateway.TenantConfig) bool { return t.ID == tenant })
	for _, s := range w.cfg.Servers {
		at := location(w.cfg.Position("server " + s.Name))
		switch {
		case of < 0 || !slices.Contains(w.cfg.Tenants[of].Servers, s.Name) || !s.IsElsewhere():
		case s.Auth.OwnLists:
			w.line("server", "%s (%s): it decides what this person is listed (lists: user)", s.Name, at)
		case !w.online:
			w.line("server", "%s (%s): what it offers is not known here; -online asks it", s.Name, at)
		}
	}
}
