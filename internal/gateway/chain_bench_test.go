package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

const (
	onePropertySchema    = `"type":"object","properties":{"message":{"type":"string"}},"required":["message"]`
	onePropertyArguments = `{"message":"hello"}`

	tenPropertiesSchema = `"type":"object","properties":{
		"owner":{"type":"string","description":"Owner"},"repo":{"type":"string","maxLength":100},
		"state":{"type":"string","enum":["open","closed","all"]},"labels":{"type":"array","items":{"type":"string"},"maxItems":20},
		"page":{"type":"integer","minimum":1},"perPage":{"type":"integer","minimum":1,"maximum":100},
		"since":{"type":"string"},"draft":{"type":"boolean"},
		"filter":{"type":"object","properties":{"field":{"type":"string"},"value":{"type":["string","number","null"]}},"required":["field"]},
		"assignee":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["owner","repo"]`
	tenPropertiesArguments = `{"owner":"octocat","repo":"hello-world","state":"open","labels":["bug","help wanted"],"page":2,"perPage":50,` +
		`"since":"2026-01-01T00:00:00Z","draft":false,"filter":{"field":"Priority","value":"P1"},"assignee":null}`

	// forLibrary is a keyword that says nothing, and that the fast path of package schema
	// leaves to its library.
	forLibrary = `,"dependentRequired":{}`
)

// BenchmarkChain makes a tools/call through all stages, without the record of the audit,
// whose write to the file would be most of the time. The same call is measured with a
// schema that the fast path decides and with one that only the library can decide.
func BenchmarkChain(b *testing.B) {
	for _, test := range []struct{ name, schema, arguments string }{
		{"one property/fast path", onePropertySchema, onePropertyArguments},
		{"one property/library", onePropertySchema + forLibrary, onePropertyArguments},
		{"ten properties/fast path", tenPropertiesSchema, tenPropertiesArguments},
		{"ten properties/library", tenPropertiesSchema + forLibrary, tenPropertiesArguments},
	} {
		b.Run(test.name, func(b *testing.B) {
			g := newBench(b, plentiful())
			g.config.Audit = nil
			g.replace(b, echoing(test.schema, texts("hello")))
			ctx, cancel := context.WithCancel(b.Context()) // that of a client may end
			defer cancel()
			caller, r := g.caller(b, alice), request("fixed__do", test.arguments)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.Handle(ctx, caller, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// plentiful is a tenant whose limits no benchmark reaches.
func plentiful() TenantConfig {
	plenty := ratelimit.Limit{Rate: 1e9, Burst: 1 << 30}
	return TenantConfig{
		ID: "acme", Servers: []string{"fixed"}, Rules: []Rule{{Allow: []string{"*"}}},
		Limits: Limits{
			Requests: &plenty, Calls: &plenty, UserCalls: &plenty,
			Tools: map[string]ratelimit.Limit{"fixed__*": plenty},
		},
	}
}

// echoing is the server fixed with one tool, which takes arguments of that schema and
// waits for no one with its answer.
func echoing(schema string, answer mcp.Object) registry.Source {
	return registry.Source{Name: "fixed", Prefix: "fixed", Tools: []registry.Offer{{
		Definition: object(`{"name":"do","inputSchema":{` + schema + `}}`), Timeout: time.Minute,
		Call: func(ctx context.Context, _ *registry.Call) (mcp.Object, error) {
			return answer, ctx.Err()
		},
	}}}
}
