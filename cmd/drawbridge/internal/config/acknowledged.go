package config

import (
	"fmt"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Needless returns what acknowledges a warning that there is not. Of no-match that is certain only where it is known what
// the tenant's servers offer: of those that run here, and of all when they were asked.
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

// unmatched returns a warning for each pattern that matches nothing in the catalogue.
func unmatched(cfg *Config, catalogue *registry.Registry) []Warning {
	found, err := gateway.UnmatchedIn(catalogue, cfg.Tenants)
	if err != nil {
		panic(err) // a config with such tenants is refused
	}
	var out []Warning
	for _, u := range found {
		at := cfg.patterns[u.PatternPlace]
		at.Text, at.Hint = fmt.Sprintf("%q matches nothing that the tenant's servers offer", at.Text), u.Nearest
		out = append(out, Warning{at, codeNoMatch})
	}
	return out
}

// AllWarnings returns the warnings of the config in the order of its files, with those of patterns that match nothing in
// the catalogue.
func (c *Config) AllWarnings(catalogue *registry.Registry) []Warning {
	all := append(slices.Clone(c.Warnings), unmatched(c, catalogue)...)
	sortWarnings(all)
	return all
}
