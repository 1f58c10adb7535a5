package gateway

import (
	"fmt"
	"testing"
)

// manyRules is a tenant with that many rules, of which the last one allows the tool.
func manyRules(id string, count int) TenantConfig {
	cfg := plentiful()
	cfg.ID, cfg.Rules = id, nil
	for i := range count - 1 {
		cfg.Rules = append(cfg.Rules, Rule{Allow: []string{fmt.Sprintf("fixed__other_%d*", i)}})
	}
	if id == "quiet" {
		cfg.Rules = append(cfg.Rules, Rule{Allow: []string{"fixed__do"}})
	}
	return cfg
}

// TestReasonsAreWorkedOutForItemsThatExist counts at which requests the rules of a tenant
// are asked: it takes the rules away from under the gateway, so that whoever asks one
// panics. A refusal of what does not exist asks none, and neither does a call of another
// tenant that has been made before, so a flood of refusals costs it nothing.
func TestReasonsAreWorkedOutForItemsThatExist(t *testing.T) {
	quiet, loud := manyRules("quiet", 1000), manyRules("acme", 1000)
	b := newBench(t, loud, quiet)
	b.replace(t, echoing(onePropertySchema, texts("hello")))
	ask := func(tenant, tool string) string {
		who := alice
		who.TenantID = tenant
		_, err := b.Handle(t.Context(), b.caller(t, who), request(tool, onePropertyArguments))
		if err == nil {
			return "ok"
		}
		return asError(t, err).StableCode()
	}
	for _, known := range [][2]string{{"acme", "fixed__do"}, {"quiet", "fixed__do"}} {
		ask(known[0], known[1]) // what a caller may use is remembered from its first call
	}
	for _, id := range []string{"acme", "quiet"} {
		tenant := b.tenants.Load().byID[id]
		for i := range tenant.rules {
			tenant.rules[i].number = len(tenant.conditions) // no set of rules has that one
		}
	}
	for _, test := range []struct{ tenant, tool, want string }{
		{"acme", "fixed__none", "DB-TOOL"},
		{"acme", "elsewhere__do", "DB-TOOL"},
		{"quiet", "fixed__do", "ok"},
		{"quiet", "fixed__none", "DB-TOOL"},
		{"acme", "fixed__do", "DB-INTERNAL"}, // the one that asks, and so panics
	} {
		if got := ask(test.tenant, test.tool); got != test.want {
			t.Errorf("%s asks for %s: got %s, want %s", test.tenant, test.tool, got, test.want)
		}
	}
}

// BenchmarkRefusals refuses items of a tenant with a thousand rules: one that exists, for
// which the rules are asked twice, and one that does not, for which they are not asked.
func BenchmarkRefusals(b *testing.B) {
	for name, tool := range map[string]string{"exists": "fixed__do", "unknown": "fixed__none"} {
		b.Run(name, func(b *testing.B) {
			g := newBench(b, manyRules("acme", 1000))
			g.config.Audit = nil
			g.replace(b, echoing(onePropertySchema, texts("hello")))
			caller, r := g.caller(b, alice), request(tool, onePropertyArguments)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.Handle(b.Context(), caller, r); err == nil {
					b.Fatal("allowed")
				}
			}
		})
	}
}
