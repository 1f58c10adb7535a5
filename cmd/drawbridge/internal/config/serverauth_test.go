package config

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// TestAuthSaysWhatRequestsCarry reads auth of servers and of tenants, and what follows
// for the tokens of callers.
func TestAuthSaysWhatRequestsCarry(t *testing.T) {
	cfg := parse(t, `issuers:
  - {issuer: "https://login.example/", hmac_secret_file: bad/secret, algorithms: [HS256], tenant: acme}
tenants:
  acme: {servers: [crm, erp], auth: {crm: {header: {name: X-Api-Key, file: bad/secret}}}}
servers:
  crm: {url: "https://crm.example/mcp", auth: {identity: {audience: "https://crm.example/mcp", claims: [email, groups]}}}
  erp:
    url: "https://erp.example/mcp"
    auth: {token_exchange: {token_url: "https://login.example/token", client_id: gw, client_secret_file: bad/secret, audience: erp, style: entra}}
`)
	crm, erp := cfg.Servers[0].Auth, cfg.Servers[1].Auth
	want := Auth{
		Spec: credential.Spec{Identity: &credential.Identity{
			Audience: "https://crm.example/mcp", Claims: []string{"email", "groups"},
		}},
		Tenants: map[string]credential.Spec{
			"acme": {Header: &credential.Header{Name: "X-Api-Key", File: "testdata/bad/secret"}},
		},
		Issuer: "http://127.0.0.1:8080",
	}
	if diff := cmp.Diff(want, crm); diff != "" {
		t.Errorf("crm (-want +got):\n%s", diff)
	}
	if x := erp.Exchange; x == nil || !x.Entra || x.Audience != "erp" || x.ID != "gw" || erp.Issuer != "" {
		t.Errorf("erp: got %+v", erp)
	}
	if iss := cfg.Issuers[0]; !slices.Equal(iss.KeepClaims, []string{"email", "groups"}) || !iss.KeepToken {
		t.Errorf("issuer: got %v, %v, want the claims and the token kept", iss.KeepClaims, iss.KeepToken)
	}
	if iss := parse(t, minimal).Issuers[0]; iss.KeepClaims != nil || iss.KeepToken {
		t.Errorf("issuer without such servers: got %v, %v, want nothing kept", iss.KeepClaims, iss.KeepToken)
	}
}
