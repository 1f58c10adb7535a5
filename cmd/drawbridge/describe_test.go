package main

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
)

// TestSummaryCountsGitHubAsAnIssuer shows that an entry of issuers counts as one, also if
// it signs no tokens.
func TestSummaryCountsGitHubAsAnIssuer(t *testing.T) {
	cfg := &config.Config{
		Issuers: make([]config.Issuer, 1),
		Logins:  []config.Login{{GitHub: true}, {GitHub: false}}, // the other one is the issuer's
	}
	if got, want := summary(cfg), "2 issuers, 0 tenants, 0 servers"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
