package gateway_test

import (
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

func TestTenantsAreJudgedWithoutAGateway(t *testing.T) {
	good := gateway.TenantConfig{
		ID: "acme", Servers: []string{"files"},
		Rules: []gateway.Rule{{Deny: []string{"files__delete"}}},
	}
	if err := gateway.CheckTenants([]gateway.TenantConfig{good}); err != nil {
		t.Errorf("one good tenant: got %v, want no problem", err)
	}
	twice := []gateway.TenantConfig{good, good}
	if err := gateway.CheckTenants(twice); err == nil || !strings.Contains(err.Error(), "defined twice") {
		t.Errorf("one tenant twice: got %v, want that it is defined twice", err)
	}
	catalogue := registry.New()
	catalogue.Replace(registry.Source{Name: "files", Prefix: "files"})
	unmatched, err := gateway.UnmatchedIn(catalogue, []gateway.TenantConfig{good})
	if err != nil || len(unmatched) != 1 || unmatched[0].Pattern != "files__delete" {
		t.Errorf("a server without tools: got %v, %v, want its one pattern", unmatched, err)
	}
	if unmatched, err := gateway.UnmatchedIn(catalogue, twice); err == nil || unmatched != nil {
		t.Errorf("one tenant twice: got %v, %v, want an error alone", unmatched, err)
	}
}
