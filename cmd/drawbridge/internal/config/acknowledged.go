package config

import (
	"fmt"
	"slices"
)

// needless returns each place that acknowledges nothing. needed are the items that
// silence the warning no-match. Of a tenant with a server that was not asked what it
// offers, every acknowledgement of that warning counts as needed, too.
func (c *Config) needless(needed map[*node]bool, asked bool) []Problem {
	unsure := unsureTenants(c, asked)
	for at, pattern := range c.patterns {
		for _, item := range pattern.acknowledged {
			needed[item] = needed[item] || unsure[at.Tenant]
		}
	}
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
