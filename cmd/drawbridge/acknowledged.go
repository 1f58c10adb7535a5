package main

import (
	"fmt"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// needless returns what acknowledges a warning that there is not. Of no-match that is certain only where it is known what
// the tenant's servers offer: of those that run here, and of all when they were asked.
func needless(cfg *config, catalogue *registry.Registry, asked bool) problems {
	var out problems
	for _, p := range cfg.needless {
		if p.Text == codeNoCommand || p.Text == codeNoAudit {
			p.Text = fmt.Sprintf("%q acknowledges nothing on this machine; if the file is for it alone, it may go", p.Text)
		} else {
			p.Text = fmt.Sprintf("%q acknowledges nothing; it may go", p.Text)
		}
		out = append(out, p)
	}
	if len(cfg.acknowledged) == 0 {
		return out.sorted()
	}
	idle := idleRules(cfg, catalogue)
	unsure := unsureTenants(cfg, asked)
	needed := make(map[problem]bool)
	for _, a := range cfg.acknowledged {
		if unsure[a.tenant] || slices.ContainsFunc(idle[a.tenant], func(rule int) bool { return a.rule == anyRule || a.rule == rule }) {
			needed[a.at] = true
		}
	}
	for _, a := range cfg.acknowledged {
		if p := a.at; !needed[p] {
			p.Text = fmt.Sprintf("%q acknowledges nothing; it may go", p.Text)
			out = append(out, p)
		}
	}
	return out.sorted()
}

// idleRules returns for each tenant the numbers of its rules with patterns that match nothing, be that acknowledged or
// not: 0 stands for its limits.
func idleRules(cfg *config, catalogue *registry.Registry) map[string][]int {
	tenants := slices.Clone(cfg.tenants)
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
func unsureTenants(cfg *config, asked bool) map[string]bool {
	elsewhere := make(map[string]bool)
	for i := range cfg.servers {
		elsewhere[cfg.servers[i].name] = cfg.servers[i].isElsewhere() && !asked
	}
	unsure := make(map[string]bool)
	for i := range cfg.tenants {
		t := &cfg.tenants[i]
		unsure[t.ID] = slices.ContainsFunc(t.Servers, func(name string) bool { return elsewhere[name] })
	}
	return unsure
}

// unmatched returns a warning for each pattern that matches nothing in the catalogue.
func unmatched(cfg *config, catalogue *registry.Registry) []warning {
	found, err := gateway.UnmatchedIn(catalogue, cfg.tenants)
	if err != nil {
		panic(err) // a config with such tenants is refused
	}
	var out []warning
	for _, u := range found {
		at := cfg.patterns[u.PatternPlace]
		at.Text, at.Hint = fmt.Sprintf("%q matches nothing that the tenant's servers offer", at.Text), u.Nearest
		out = append(out, warning{at, codeNoMatch})
	}
	return out
}

// allWarnings returns the warnings of the config in the order of its files, with those of patterns that match nothing in
// the catalogue.
func (c *config) allWarnings(catalogue *registry.Registry) []warning {
	all := append(slices.Clone(c.warnings), unmatched(c, catalogue)...)
	sortWarnings(all)
	return all
}
