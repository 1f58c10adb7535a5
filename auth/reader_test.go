package auth_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// TestReaderReadsClaimsAsTokensAreRead shows that claims mean the same to a Reader as in
// a token, though they need no issuer, audience or time.
func TestReaderReadsClaimsAsTokensAreRead(t *testing.T) {
	t.Parallel()
	reader, err := auth.NewReader(auth.Issuer{
		Issuer: issuerName, TenantClaim: "groups", TenantMap: map[string]string{"g1": "acme", "g2": "umbrella"},
		ScopeClaims: []string{"realm.roles"}, ScopeMap: map[string]string{"boss": "admin"},
		Require: map[string]string{"verified": "true"}, SubjectClaim: "oid", NameClaim: "email",
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := reader.Read([]byte(`{"sub":"s","oid":"o","groups":["g2","x","g1"],"realm":{"roles":["boss","read"]},
		"verified":true,"email":"a@b.example"}`))
	if err != nil {
		t.Fatal(err)
	}
	if p.Issuer != issuerName || p.Subject != "o" || p.Name != "a@b.example" ||
		!slices.Equal(p.Tenants, []string{"umbrella", "acme"}) || !slices.Equal(p.Scopes, []string{"admin", "read"}) {
		t.Errorf("got %+v", p)
	}
	for name, test := range map[string]struct{ claims, reason, claim string }{
		"no subject":       {`{"oid":"o","groups":["g1"],"verified":true}`, "claims", ""},
		"not required":     {`{"sub":"s","oid":"o","groups":["g1"]}`, "claims", "verified"},
		"no tenant of his": {`{"sub":"s","oid":"o","groups":["g3"],"verified":true}`, "tenant", "groups"},
		"no JSON":          {`{`, "malformed", ""},
	} {
		var refused *auth.Error
		if _, err := reader.Read([]byte(test.claims)); !errors.As(err, &refused) ||
			refused.Reason != test.reason || refused.Claim != test.claim {
			t.Errorf("%s: got %v, want reason %q and claim %q", name, err, test.reason, test.claim)
		}
	}
}

// TestOwnTokensSpeakForPeopleOfOthers shows that a token of the gateway itself names
// whose people it speaks for, that it ends with what it was given out for, also where it
// was verified before, and that its keys may change at any time.
func TestOwnTokensSpeakForPeopleOfOthers(t *testing.T) {
	t.Parallel()
	key := keyOf("k1", newEd())
	keys, generation := []auth.Key{key}, uint64(0)
	ended := map[string]bool{}
	own := auth.Issuer{
		Issuer: "https://gate.example", Algorithms: []string{"EdDSA"}, Audiences: []string{audience},
		TenantClaim: "tenant", TenantsAllowed: []string{"acme"}, SpeaksFor: []string{issuerName},
		Own: &auth.Own{
			Keys:    func() *auth.PublicKeys { return auth.NewPublicKeys(generation, keys...) },
			Revoked: func(f string) bool { return ended[f] },
		},
	}
	v := verifier(t, own)
	sign := func(key auth.Key, origin string) string {
		return made(auth.Sign(key, "EdDSA", auth.Claims{
			Issuer: "https://gate.example", Subject: "ann", Audience: audience, IssuedAt: at, Expiry: at.Add(900e9),
			Type:  "at+jwt",
			Extra: map[string]any{"origin": origin, "family": "f1", "tenant": "acme", "client_id": "c"},
		}))
	}
	token := sign(key, issuerName)
	p, err := v.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	if p.Issuer != issuerName || p.Subject != "ann" || p.TenantID != "acme" || p.ClientID != "c" {
		t.Errorf("got %+v", p)
	}
	if err := v.Recheck(p); err != nil {
		t.Errorf("judged: %v", err)
	}
	if _, err := v.Verify(t.Context(), sign(key, "https://other.example")); err == nil {
		t.Error("a token may speak for people of any issuer")
	}
	second := keyOf("k2", newEd())
	keys, generation = []auth.Key{second, key}, 1
	for _, token := range []string{token, sign(second, issuerName)} {
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Errorf("with both keys: %v", err)
		}
	}
	ended["f1"] = true
	_, err = v.Verify(t.Context(), token)
	if judged := v.Recheck(p); err == nil || judged == nil {
		t.Errorf("after the end: verified %v, judged %v; want refusals", err, judged)
	}
	var refused *auth.Error
	if !errors.As(err, &refused) || refused.Reason != "expired" || refused.Issuer != own.Issuer {
		t.Errorf("after the end: got %+v, want a token of %s that has expired", err, own.Issuer)
	}
	if _, err := v.Verify(t.Context(), sign(second, issuerName)); err == nil {
		t.Error("a token that was never seen before is accepted after the end")
	}
	delete(ended, "f1")
	keys, generation = []auth.Key{second}, 2
	if _, err := v.Verify(t.Context(), token); err == nil {
		t.Error("a token of a key that is gone is accepted")
	}
}
