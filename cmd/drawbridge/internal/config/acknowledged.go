package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Needless returns each place that acknowledges a warning which would not be given anyway. For no-match that is certain
// only where it is known what the tenant's servers offer: servers that run here are known, and asked says that all
// others were connected to. The catalogue holds what they offer.
func (c *Config) Needless(catalogue *registry.Registry, asked bool) []Problem {
	var out []Problem
	for _, p := range c.idle {
		if p.Text == codeNoCommand || p.Text == codeNoAudit {
			p.Text = fmt.Sprintf("%q acknowledges nothing on this machine; if the file is for it alone, it may go", p.Text)
		} else {
			p.Text = fmt.Sprintf("%q acknowledges nothing; it may go", p.Text)
		}
		out = append(out, p)
	}
	if len(c.acknowledged) == 0 {
		return sorted(out)
	}
	idle := idleRules(c, catalogue)
	unsure := unsureTenants(c, asked)
	needed := make(map[Problem]bool)
	for _, a := range c.acknowledged {
		if unsure[a.tenant] || slices.ContainsFunc(idle[a.tenant], func(rule int) bool { return a.rule == anyRule || a.rule == rule }) {
			needed[a.at] = true
		}
	}
	for _, a := range c.acknowledged {
		if p := a.at; !needed[p] {
			p.Text = fmt.Sprintf("%q acknowledges nothing; it may go", p.Text)
			out = append(out, p)
		}
	}
	return sorted(out)
}

// idleRules returns for each tenant the numbers of its rules with patterns that match nothing, be that acknowledged or
// not: 0 stands for its limits.
func idleRules(cfg *Config, catalogue *registry.Registry) map[string][]int {
	tenants := slices.Clone(cfg.Tenants)
	for i := range tenants {
		tenants[i].MayMatchNothing = false
		tenants[i].Rules = slices.Clone(tenants[i].Rules)
		for j := range tenants[i].Rules {
			tenants[i].Rules[j].MayMatchNothing = false
		}
	}
	unmatched, err := gateway.UnmatchedIn(catalogue, tenants)
	if err != nil {
		panic(err) // a config with such tenants is refused
	}
	idle := make(map[string][]int)
	for _, u := range unmatched {
		idle[u.Tenant] = append(idle[u.Tenant], u.Rule)
	}
	return idle
}

// unsureTenants returns the tenants of whose servers one has not been asked what it offers.
func unsureTenants(cfg *Config, asked bool) map[string]bool {
	elsewhere := make(map[string]bool)
	for i := range cfg.Servers {
		elsewhere[cfg.Servers[i].Name] = cfg.Servers[i].IsElsewhere() && !asked
	}
	unsure := make(map[string]bool)
	for i := range cfg.Tenants {
		t := &cfg.Tenants[i]
		unsure[t.ID] = slices.ContainsFunc(t.Servers, func(name string) bool { return elsewhere[name] })
	}
	return unsure
}

// acknowledgement is one place that says no-match is meant, with one of the things that this is about.
type acknowledgement struct {
	at     Problem // with the code as its text
	tenant string
	rule   int // its number from 1, or anyRule
}

// anyRule is every rule of a tenant, and its limits.
const anyRule = -1

// acknowledge reads the codes of warnings that are meant, in the config, a tenant, a rule or a server: they are not told
// of what stands within.
func (r *reader) acknowledge(n *node) {
	r.eachText(n, "acknowledge", func(at *node, code string) {
		if !slices.Contains(Codes(), code) {
			r.faultHint(at, nearest(at.raw, Codes()), "there is no warning %q; there are %s", at.raw, strings.Join(Codes(), ", "))
		}
		r.acknowledged = append(r.acknowledged, at)
	})
}

// acknowledgements returns where the mappings acknowledge the code.
func acknowledgements(code string, within ...*node) []*node {
	var found []*node
	for _, n := range within {
		for _, item := range n.child("acknowledge").items {
			if item.text == code {
				found = append(found, item)
			}
		}
	}
	return found
}
