package auth_test

import (
	"slices"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// FuzzClaimPath takes any text as the path of the claim that has the tenants. A path that
// the config refuses is no issuer's; of any other, a claim that was put there is found,
// alone and in a list, and in any other claims nobody finds a tenant that is not allowed.
func FuzzClaimPath(f *testing.F) {
	f.Add("groups", `{"groups":["g1"]}`)
	f.Add("realm_access.roles", `{"realm_access":{"roles":["g1","other"]}}`)
	f.Add("/a~1b/0", `{"a/b":["g1"]}`)
	f.Add("/~", `{"~":"g1"}`)
	f.Add("https://corp.example/tenant", `{"https://corp.example/tenant":"g1"}`)
	f.Add("a..b", `{"a":{"":{"b":"g1"}}}`)
	f.Add("/", `{"":"g1"}`)
	f.Add("/a/-1", `{"a":["x"]}`)
	f.Add("_claim_names", `{"_claim_names":{"groups":"src1"},"groups":["g1"]}`)
	f.Fuzz(func(t *testing.T, path, other string) {
		reader, err := auth.NewReader(auth.Issuer{
			Issuer: issuerName, TenantClaim: path, TenantMap: map[string]string{"g1": "acme"},
		})
		if bad := auth.CheckClaimPath(path); bad != nil || path == "" {
			if err == nil {
				t.Fatalf("%q is refused by %v and taken by an issuer", path, bad)
			}
			return
		}
		if err != nil {
			return // such as a claim that has a meaning of its own
		}
		for _, value := range []any{"g1", []string{"x", "g1"}} {
			claims := map[string]any{"sub": "s"}
			if auth.PutClaim(claims, path, value) != nil || claims["sub"] != "s" {
				return // the path leads into the subject
			}
			text, err := strictjson.Marshal(claims)
			if err != nil || strictjson.Check(text) != nil {
				return // the path is no UTF-8
			}
			if p, err := reader.Read(text); err != nil || p.TenantID != "acme" {
				t.Fatalf("%q in %s: got %+v, %v", path, text, p, err)
			}
		}
		p, err := reader.Read([]byte(other))
		if err == nil && (p.TenantID != "acme" || len(p.Tenants) > 0 && !slices.Equal(p.Tenants, []string{"acme"})) {
			t.Fatalf("%q in %s: got %+v", path, other, p)
		}
	})
}

// TestTopClaimIsWhereAPathBegins whatever form the path has.
func TestTopClaimIsWhereAPathBegins(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "a..b": "", "groups": "groups", "realm_access.roles": "realm_access",
		"/urn:corp.example~1roles/0": "urn:corp.example/roles", "https://corp.example/tenant": "https://corp.example/tenant",
	} {
		if got := auth.TopClaim(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}
