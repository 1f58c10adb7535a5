package auth_test

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// TestOnlyASignatureMakesAnythingCertain puts every fault of claims under every
// signature: which fault it is, is told only when the issuer that the token names made
// the signature.
func TestOnlyASignatureMakesAnythingCertain(t *testing.T) {
	ours, theirs, nobodys := newEC(), newEC(), newEC()
	first, second := acme(keyOf("k", ours), "ES256"), acme(keyOf("k", theirs), "ES256")
	second.Issuer, second.Audiences = "https://login.globex.example/",
		[]string{"https://mcp.globex.example/mcp"}
	second.Tenant, second.TenantClaim, second.TenantsAllowed = "", "org", []string{"globex"}
	first.NameClaim, second.NameClaim = "email", "email"
	v := verifier(t, first, second)
	said := claims(at).with("email", `"ann@acme.example"`)
	const leeway = 30 * time.Second // between the clocks of two machines
	ofSecond := said.with("iss", `"`+second.Issuer+`"`).with("aud", `["https://a.example","`+
		second.Audiences[0]+`"]`)
	unix := func(d time.Duration) string { return strconv.FormatInt(at.Add(d).Unix(), 10) }

	faults := []struct {
		reason             string
		issuer             string
		claims             members
		claim, found       string
		audience, expected []string
	}{
		{
			"expired", first.Issuer, said.with("iat", unix(-2*time.Hour)).with("exp", unix(-time.Hour)),
			"exp", unix(-time.Hour), nil,
			[]string{"after " + unix(-leeway)},
		},
		{
			"early", first.Issuer, said.with("nbf", unix(time.Minute)),
			"nbf", unix(time.Minute), nil,
			[]string{"at most " + unix(leeway)},
		},
		{
			"early", first.Issuer, said.with("iat", unix(2*time.Minute)),
			"iat", unix(2 * time.Minute), nil,
			[]string{"at most " + unix(time.Minute)},
		},
		{
			"lifetime", first.Issuer, said.with("iat", unix(0)).with("exp", unix(48*time.Hour)),
			"exp", unix(48 * time.Hour), nil,
			[]string{"at most " + unix(auth.MaxLifetime)},
		},
		{"claims", first.Issuer, said.with("scope", "7"), "scope", "7", nil, nil},
		{"claims", first.Issuer, said.without("aud"), "aud", "", nil, nil},
		{"claims", first.Issuer, said.without("sub"), "sub", "", nil, nil},
		{"claims", first.Issuer, said.without("exp"), "exp", "", nil, nil},
		{"tenant", second.Issuer, ofSecond.with("org", `"acme"`), "org", `"acme"`, nil, []string{"globex"}},
		{
			"audience", first.Issuer, said.with("aud", `["https://a.example","https://b.example"]`), "", "",
			[]string{"https://a.example", "https://b.example"},
			first.Audiences,
		},
		{"audience", first.Issuer, said.with("aud", `"`+second.Audiences[0]+`"`).with("exp",
			unix(-time.Hour)), "", "", second.Audiences, first.Audiences},
		{
			"audience", second.Issuer, ofSecond.with("aud", `"`+audience+`"`), "", "",
			[]string{audience},
			second.Audiences,
		},
	}
	head := header("ES256").with("kid", `"k"`)
	signatures := []struct {
		name   string
		signed func(members) string
		reason string // instead of the fault's; "" when the fault is told
		issuer string // whose signature it is; "" for nobody's
	}{
		{
			"of the first issuer", func(m members) string { return mint(ours, head, m) }, "signature",
			first.Issuer,
		},
		{
			"of the second issuer", func(m members) string { return mint(theirs, head, m) }, "signature",
			second.Issuer,
		},
		{"of nobody", func(m members) string { return mint(nobodys, head, m) }, "signature", ""},
		{
			"empty", func(m members) string { return encode(head.String()) + "." + encode(m.String()) + "." },
			"signature", "",
		},
		{
			"of a key that is not known",
			func(m members) string { return mint(ours, head.with("kid", `"x"`), m) }, "key", "",
		},
		{
			"of an algorithm that is not allowed",
			func(m members) string { return mint(secret, header("HS256"), m) }, "algorithm", "",
		},
		{
			"under an extension", func(m members) string { return mint(ours, head.with("crit", `["x"]`), m) },
			"malformed", "",
		},
		{
			"of another kind of token",
			func(m members) string { return mint(ours, head.with("typ", `"logout+jwt"`), m) }, "malformed",
			"",
		},
		{
			"of an issuer that is not known",
			func(m members) string { return mint(ours, head, m.with("iss", `"https://evil.example/"`)) },
			"issuer", "",
		},
		{
			"of what is no address",
			func(m members) string {
				return mint(ours, head,
					m.with("iss", `"https://user:secret@evil.example/"`))
			}, "issuer", "",
		},
	}
	for _, f := range faults {
		for _, s := range signatures {
			token := s.signed(f.claims)
			_, err := v.Verify(t.Context(), token)
			got, _ := errors.AsType[*auth.Error](err)
			want := &auth.Error{Reason: s.reason}
			switch s.reason {
			case "malformed":
			case "issuer":
				if s.name == "of an issuer that is not known" {
					want.Claimed = "https://evil.example/"
				}
			default:
				want.Claimed = f.issuer
			}
			if s.issuer == f.issuer {
				want = &auth.Error{
					Reason: f.reason, Issuer: f.issuer, Audience: f.audience,
					Expected: f.expected, Claim: f.claim, Found: f.found, Name: "ann@acme.example",
				}
			}
			if why := reason(t, token, err); why != want.Reason {
				t.Errorf("%s with a signature %s: got %q, want %q", f.reason, s.name, why, want.Reason)
			}
			if got.Issuer != want.Issuer || got.Claimed != want.Claimed ||
				!slices.Equal(got.Audience, want.Audience) || !slices.Equal(got.Expected, want.Expected) ||
				got.Claim != want.Claim || got.Found != want.Found || got.Name != want.Name {
				t.Errorf("%s with a signature %s (-want +got):\n%s", f.reason, s.name,
					cmp.Diff(want, got, cmp.FilterPath(
						func(p cmp.Path) bool { return p.Last().String() == ".Err" }, cmp.Ignore())))
			}
		}
	}
}
