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
	if len(c.idle) == 0 {
		return nil
	}
	needed := c.neededFor(catalogue, asked)
	var out []Problem
	for _, item := range c.idle {
		rest := "; it may go"
		switch item.text {
		case codeNoMatch:
			if needed[item] {
				continue
			}
		case codeNoCommand, codeNoAudit, codeWritable:
			rest = " on this machine; if the file is for it alone, it may go"
		}
		out = append(out, item.problem(fmt.Sprintf("%q acknowledges nothing%s", item.text, rest)))
	}
	return sorted(out)
}

// neededFor returns the items that acknowledge no-match and silence a warning, or may do
// so.
func (c *Config) neededFor(catalogue *registry.Registry, asked bool) map[*node]bool {
	unsure := unsureTenants(c, asked)
	needed := make(map[*node]bool)
	need := func(at gateway.PatternPosition) {
		for _, item := range c.patterns[at].acknowledged {
			needed[item] = true
		}
	}
	for at := range c.patterns {
		if unsure[at.Tenant] {
			need(at)
		}
	}
	for _, u := range gateway.UnmatchedIn(catalogue, unacknowledged(c.Tenants)) {
		need(u.PatternPosition)
	}
	return needed
}

// unacknowledged returns copies of tenants of which every pattern should match something.
func unacknowledged(tenants []gateway.TenantConfig) []gateway.TenantConfig {
	tenants = slices.Clone(tenants)
	for i := range tenants {
		tenants[i].MayMatchNothing = false
		tenants[i].Rules = slices.Clone(tenants[i].Rules)
		for j := range tenants[i].Rules {
			tenants[i].Rules[j].MayMatchNothing = false
		}
	}
	return tenants
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
