package gateway_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

func TestTenantsAreJudgedWithoutAGateway(t *testing.T) {
	catalogue := registry.New()
	catalogue.Replace(registry.Source{Name: "files", Prefix: "files"})
	unmatched := gateway.UnmatchedIn(catalogue, []gateway.TenantConfig{{
		ID: "acme", Servers: []string{"files"},
		Rules: []gateway.Rule{{Deny: []string{"files__delete"}}},
	}})
	if len(unmatched) != 1 || unmatched[0].Pattern != "files__delete" {
		t.Errorf("a server without tools: got %v, want its one pattern", unmatched)
	}
}
