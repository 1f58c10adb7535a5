package main

import (
	"cmp"
	"fmt"
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
	for _, s := range w.cfg.Servers {
		at := location(w.cfg.Position("server " + s.Name))
		switch {
		case !w.reaches(tenant, s.Name) || !s.IsElsewhere():
		case s.Auth.OwnLists:
			w.line("server", "%s (%s): it decides what this person is listed (lists: user)", s.Name, at)
		case !w.online:
			w.line("server", "%s (%s): what it offers is not known here; -online asks it", s.Name, at)
		}
	}
}

// reaches tells whether a tenant's servers name a server.
func (w *walk) reaches(tenant, server string) bool {
	return slices.ContainsFunc(w.cfg.Tenants, func(t gateway.TenantConfig) bool {
		return t.ID == tenant && slices.Contains(t.Servers, server)
	})
}

// leftOut says of an item that a server of the tenant lists why nobody is offered it; ""
// if no such item is left out. name is the one that clients would see.
func (w *walk) leftOut(tenant string, kind registry.Kind, name string) string {
	for _, s := range w.cfg.Servers {
		for _, r := range w.statuses[s.Name].Refused {
			if r.Kind != kind || registry.Beginning(s.Prefix)+r.Item != name || !w.reaches(tenant, s.Name) {
				continue
			}
			why := refusals([]registry.Refusal{r})
			if r.Reason == registry.ReasonQuarantined {
				why = leftOut(r)
			}
			return fmt.Sprintf("the server %s has it, and it is left out: %s", s.Name, why)
		}
	}
	return ""
}
