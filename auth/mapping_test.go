package auth_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// mapped is an issuer whose groups are tenants, and whose roles are scopes.
func mapped(change func(*auth.Issuer)) auth.Issuer {
	issuer := acme(auth.Key{Public: secret, Private: secret}, "HS256")
	issuer.Tenant, issuer.TenantClaim = "", "groups"
	issuer.TenantMap = map[string]string{"5c6": "payments", "9f1": "search", "9f2": "search"}
	if change != nil {
		change(&issuer)
	}
	return issuer
}

// TestClaimsBecomeTenantsScopesAndNames reads tokens as identity providers write them.
func TestClaimsBecomeTenantsScopesAndNames(t *testing.T) {
	said := claims(at).with("groups", `["x","9f2","9f1"]`)
	whole := auth.Principal{
		Issuer: issuerName, Subject: "alice", ClientID: "cli", TenantID: "search",
		Scopes: []string{"tools.read", "tools.call"}, Expiry: at.Add(time.Hour),
	}
	for _, test := range []struct {
		name   string
		change func(*auth.Issuer)
		claims members
		want   func(*auth.Principal)
	}{
		{"one tenant of two groups", nil, said, func(*auth.Principal) {}},
		{"several tenants", nil, said.with("groups", `["9f1","5c6"]`), func(p *auth.Principal) {
			p.TenantID, p.Tenants = "", []string{"search", "payments"}
		}},
		{"a text", nil, said.with("groups", `"5c6"`), func(p *auth.Principal) { p.TenantID = "payments" }},
		{
			"a name that is an address",
			func(i *auth.Issuer) { i.TenantClaim = "https://corp.example/groups" },
			said.with("https://corp.example/groups", `["5c6"]`),
			func(p *auth.Principal) { p.TenantID = "payments" },
		},
		{
			"a JSON pointer", func(i *auth.Issuer) { i.TenantClaim = "/a~1b/0/m~0n" },
			said.with("a/b", `[{"m~n":"5c6"}]`), func(p *auth.Principal) { p.TenantID = "payments" },
		},
		{
			"scopes of two claims, one of them inside another",
			func(i *auth.Issuer) {
				i.ScopeClaims = []string{"scope", "realm_access.roles"}
				i.ScopeMap = map[string]string{"mcp-admin": "admin", "tools.call": "call"}
			},
			said.with("realm_access", `{"roles":["mcp-admin","tools.read"]}`),
			func(p *auth.Principal) { p.Scopes = []string{"tools.read", "call", "admin"} },
		},
		{
			"what is required is there",
			func(i *auth.Issuer) {
				i.Require = map[string]string{
					"email_verified": "true", "hd": "corp.example", "amr": "mfa",
					"level": "2",
				}
			},
			said.with("email_verified", "true").with("hd", `"corp.example"`).with("amr",
				`["pwd","mfa"]`).with("level", "2"),
			func(*auth.Principal) {},
		},
		{
			"what is required stands in lists",
			func(i *auth.Issuer) {
				i.Require = map[string]string{"levels": "2", "of": "7", "flags": "true"}
			},
			said.with("levels", "[1,2]").with("of", `["a",7,{"b":1}]`).with("flags", "[false,true]"),
			func(*auth.Principal) {},
		},
		{
			"a subject and a name of other claims",
			func(i *auth.Issuer) { i.SubjectClaim, i.NameClaim = "oid", "email" },
			said.with("oid", `"0a-b1"`).with("email", `"alice@corp.example"`),
			func(p *auth.Principal) { p.Subject, p.Name = "0a-b1", "alice@corp.example" },
		},
		{
			"for the records", func(i *auth.Issuer) { i.Recorded = []string{"email", "a.b", "n", "none", "long"} },
			said.with("jti", `"`+strings.Repeat("j", 200)+`"`).with("email", `"al@acme.example"`).
				with("a", `{"b":["x"]}`).with("n", "7").with("long", `"`+strings.Repeat("é", 100)+`"`),
			func(p *auth.Principal) {
				p.TokenID = strings.Repeat("j", 128)
				p.Recorded = [][2]string{
					{"email", "al@acme.example"}, {"a.b", `["x"]`}, {"n", "7"}, {"long", strings.Repeat("é", 64)},
				}
			},
		},
		{
			"no name", func(i *auth.Issuer) { i.NameClaim = "email" }, said.with("email", "[]"),
			func(*auth.Principal) {},
		},
		{
			"a life that the issuer allows", func(i *auth.Issuer) { i.MaxLifetime = 72 * time.Hour },
			said.with("exp", fmt.Sprint(at.Add(70*time.Hour).Unix())),
			func(p *auth.Principal) { p.Expiry = at.Add(70 * time.Hour) },
		},
	} {
		v := verifier(t, mapped(test.change))
		got, err := v.Verify(t.Context(), mint(secret, header("HS256"), test.claims))
		if err != nil {
			t.Errorf("%s: %v: %v", test.name, err, errors.Unwrap(err))
			continue
		}
		want := whole
		test.want(&want)
		got.Expiry, want.Expiry = got.Expiry.UTC(), want.Expiry.UTC()
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(auth.Principal{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// TestRefusalsSayWhichClaimWasAtFault looks at what an operator reads of a token that is
// genuine.
func TestRefusalsSayWhichClaimWasAtFault(t *testing.T) {
	said := claims(at).with("groups", `["5c6"]`)
	long := `"` + strings.Repeat("é", 300) + `"`
	for _, test := range []struct {
		name        string
		change      func(*auth.Issuer)
		claims      members
		reason      string
		claim       string
		found, text string
		expected    []string
	}{
		{
			"groups that are no tenants", nil, said.with("groups", `["x"]`), "tenant", "groups", `["x"]`,
			"no value of the claim is a tenant",
			[]string{"5c6", "9f1", "9f2"},
		},
		{"no groups", nil, claims(at), "tenant", "groups", "", "is not there", []string{"5c6", "9f1", "9f2"}},
		{
			"too many groups", nil, claims(at).with("_claim_names", `{"groups":"src1"}`), "tenant", "groups",
			"",
			"too many: let it put only groups that are assigned",
			[]string{"5c6", "9f1", "9f2"},
		},
		{
			"a long text", nil, said.with("groups", long), "tenant", "groups", `"` + strings.Repeat("é", 127),
			"no value",
			[]string{"5c6", "9f1", "9f2"},
		},
		{
			"an address that nobody has verified",
			func(i *auth.Issuer) { i.Require = map[string]string{"email_verified": "true"} },
			said.with("email_verified", "false"), "claims", "email_verified", "false", "required",
			[]string{"true"},
		},
		{
			"a required claim that is not there",
			func(i *auth.Issuer) { i.Require = map[string]string{"hd": "corp.example"} },
			said, "claims", "hd", "", "required",
			[]string{"corp.example"},
		},
		{
			"a required claim that is an object",
			func(i *auth.Issuer) { i.Require = map[string]string{"hd": "{}"} },
			said.with("hd", "{}"), "claims", "hd", "{}", "required",
			[]string{"{}"},
		},
		{
			"a required number that is in a list of a list alone",
			func(i *auth.Issuer) { i.Require = map[string]string{"levels": "2"} },
			said.with("levels", "[[2],12]"), "claims", "levels", "[[2],12]", "required",
			[]string{"2"},
		},
		{
			"no subject", func(i *auth.Issuer) { i.SubjectClaim = "oid" }, said.with("oid", `""`), "claims",
			"oid", `""`,
			"the subject", nil,
		},
		{
			"scopes of another kind", func(i *auth.Issuer) { i.ScopeClaims = []string{"a.b"} },
			said.with("a", `{"b":7}`), "claims", "a.b", "7", "scopes", nil,
		},
	} {
		token := mint(secret, header("HS256"), test.claims)
		_, err := verifier(t, mapped(test.change)).Verify(t.Context(), token)
		if got := reason(t, token, err); got != test.reason {
			t.Errorf("%s: got reason %q, want %q", test.name, got, test.reason)
			continue
		}
		got, _ := errors.AsType[*auth.Error](err)
		if got.Claim != test.claim || got.Found != test.found ||
			!strings.Contains(got.Err.Error(), test.text) {
			t.Errorf("%s: got claim %q with %q: %v", test.name, got.Claim, got.Found, got.Err)
		}
		if diff := cmp.Diff(test.expected, got.Expected); diff != "" || got.Issuer != issuerName {
			t.Errorf("%s: of issuer %q expected (-want +got):\n%s", test.name, got.Issuer, diff)
		}
	}
}

// TestTheAudienceChoosesAmongEntriesOfAnIssuer has two entries that read tokens
// otherwise.
func TestTheAudienceChoosesAmongEntriesOfAnIssuer(t *testing.T) {
	first, second := mapped(nil), mapped(func(i *auth.Issuer) {
		i.Audiences, i.TenantMap = []string{"api://other"}, map[string]string{"5c6": "globex"}
	})
	v, err := auth.New(auth.Config{
		Issuers: []auth.Issuer{first, second},
		Now:     func() time.Time { return at },
	})
	if err != nil {
		t.Fatal(err)
	}
	said := claims(at).with("groups", `["5c6"]`)
	for audience, want := range map[string]string{
		`"` + first.Audiences[0] + `"`: "payments", `["x","api://other"]`: "globex",
	} {
		p, err := v.Verify(t.Context(), mint(secret, header("HS256"), said.with("aud", audience)))
		if err != nil || p.TenantID != want || v.Recheck(p) != nil {
			t.Errorf("audience %s: got %q, %v; judged %v", audience, p.TenantID, err, v.Recheck(p))
		}
	}
	token := mint(secret, header("HS256"), said.with("aud", `"neither"`))
	if _, err := v.Verify(t.Context(), token); reason(t, token, err) != "audience" {
		t.Errorf("got %v, want the audience refused", err)
	}
}

// TestAPrincipalOfSeveralTenantsActsForOneOfThem chooses, and asks again after the map of
// tenants has changed.
func TestAPrincipalOfSeveralTenantsActsForOneOfThem(t *testing.T) {
	v := verifier(t, mapped(nil))
	p, err := v.Verify(t.Context(), mint(secret, header("HS256"), claims(at).with("groups", `["5c6","9f1"]`)))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := p.At("initech"); ok {
		t.Error("a tenant that the token does not name was chosen")
	}
	chosen, ok := p.At("search")
	if !ok || chosen.TenantID != "search" || chosen.Tenants != nil || p.TenantID != "" {
		t.Errorf("got %+v", chosen)
	}
	if again, ok := chosen.At("payments"); ok || again.TenantID != "search" {
		t.Errorf("somebody who has chosen acts for %q now", again.TenantID)
	}
	without := verifier(
		t, mapped(func(i *auth.Issuer) { i.TenantMap = map[string]string{"5c6": "payments"} }))
	moved := verifier(t, mapped(func(i *auth.Issuer) { i.TenantMap = map[string]string{"5c6": "search"} }))
	for _, judged := range []struct {
		by   *auth.Verifier
		p    auth.Principal
		want bool
	}{{v, p, true}, {v, chosen, true}, {without, p, true}, {without, chosen, false}, {moved, chosen, true}} {
		if err := judged.by.Recheck(judged.p); (err == nil) != judged.want {
			t.Errorf("for %q: judged %v, want %v", judged.p.TenantID, err, judged.want)
		}
	}
}

// TestFaultyMappingsAreRefused says what is wrong with them.
func TestFaultyMappingsAreRefused(t *testing.T) {
	for want, change := range map[string]func(*auth.Issuer){
		"both a tenant and":           func(i *auth.Issuer) { i.Tenant = "acme" },
		"both a map":                  func(i *auth.Issuer) { i.TenantsAllowed = []string{"acme"} },
		"empty value or tenant":       func(i *auth.Issuer) { i.TenantMap = map[string]string{"a": ""} },
		"no empty name":               func(i *auth.Issuer) { i.TenantClaim = "a..b" },
		"a JSON pointer has ~0":       func(i *auth.Issuer) { i.ScopeClaims = []string{"/a~2"} },
		"tokens may live for 90 days": func(i *auth.Issuer) { i.MaxLifetime = 91 * 24 * time.Hour },
	} {
		_, err := auth.New(auth.Config{Issuers: []auth.Issuer{mapped(change)}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
