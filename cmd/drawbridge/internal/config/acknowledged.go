package config

import (
	"fmt"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Needless returns each place that acknowledges a warning which would not be given
// anyway, so that a stale acknowledgement does not silence a real warning one day.
//
// Whether the code no-match is needed depends on what the servers of the tenant offer,
// which the catalogue holds. Built-in tools and HTTP APIs are known without a connection;
// for programs and addresses, asked says that all of them were connected to. For a tenant
// with a server that was not asked, every acknowledgement of no-match counts as needed.
func (c *Config) Needless(catalogue *registry.Registry, asked bool) []Problem {
	var out []Problem
	for _, p := range c.idle {
		if p.Text == codeNoCommand || p.Text == codeNoAudit || p.Text == codeWritable {
			p.Text = fmt.Sprintf("%q acknowledges nothing on this machine; if the file is for it alone, it "+
				"may go", p.Text)
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
		if unsure[a.tenant] ||
			slices.ContainsFunc(idle[a.tenant],
				func(rule int) bool { return a.rule == anyRule || a.rule == rule }) {
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

// idleRules returns, for each tenant id, the numbers of its rules (from 1) with patterns
// that match nothing in the catalogue, whether or not that is acknowledged. The number 0
// stands for the tenant's limits.
func idleRules(cfg *Config, catalogue *registry.Registry) map[string][]int {
	// The config is shared, so what changes here are copies of its tenants and rules.
	tenants := slices.Clone(cfg.Tenants)
	for i := range tenants {
		tenants[i].MayMatchNothing = false
		tenants[i].Rules = slices.Clone(tenants[i].Rules)
		for j := range tenants[i].Rules {
			tenants[i].Rules[j].MayMatchNothing = false
		}
	}
	idle := make(map[string][]int)
	for _, u := range gateway.UnmatchedIn(catalogue, tenants) {
		idle[u.Tenant] = append(idle[u.Tenant], u.Rule)
	}
	return idle
}

// unsureTenants returns the tenants of which at least one server has not been asked what
// it offers.
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
