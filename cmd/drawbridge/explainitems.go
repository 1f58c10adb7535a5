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
	walked := w.out.String()
	w.out.Reset()
	var counts []string // of the kinds of which there is something
	for _, kind := range []registry.Kind{
		registry.KindTool, registry.KindPrompt, registry.KindResource, registry.KindTemplate,
		registry.KindSkill,
	} {
		n := len(items)
		items = slices.DeleteFunc(items, func(item *registry.Item) bool {
			if item.Kind == kind {
				w.line(string(kind), "%s", item.Exposed)
			}
			return item.Kind == kind
		})
		if n -= len(items); n > 0 {
			counts = append(counts, count(n, string(kind)))
		}
	}
	listed := w.out.String()
	w.out.Reset()
	w.out.WriteString("may use " + cmp.Or(strings.Join(counts, ", "), "nothing that is known here") + "\n\n" +
		walked + listed)
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
