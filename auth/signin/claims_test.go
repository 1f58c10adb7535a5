package signin_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
)

// TestClaimsOfProvidersDecideWhoComesIn takes people through a provider whose claims are
// not as the config wants them: an address that nobody has verified, groups that did not
// fit into the token, another organisation. They get words, the log names the claim, and
// nothing is kept. Somebody whose claims become so later is out at the next refresh.
func TestClaimsOfProvidersDecideWhoComesIn(t *testing.T) {
	const good = `{"sub":"ann","groups":["acme"],"email":"ann@acme.example","email_verified":true,"hd":"acme.example"}`
	for name, test := range map[string]struct{ old, new, claim string }{
		"not verified":        {`"email_verified":true`, `"email_verified":false`, "email_verified"},
		"not said":            {`"email_verified":true,`, ``, "email_verified"},
		"in words":            {`"email_verified":true`, `"email_verified":"false"`, "email_verified"},
		"another domain":      {`"hd":"acme.example"`, `"hd":"evil.example"`, "hd"},
		"a private account":   {`,"hd":"acme.example"`, ``, "hd"},
		"overage of groups":   {`"groups":["acme"]`, `"_claim_names":{"groups":"src1"},"_claim_sources":{"src1":{"endpoint":"https://x"}}`, "groups"},
		"groups of no tenant": {`["acme"]`, `["other"]`, "groups"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := newWorld(t, func(_ *signin.Config, s *signin.Settings) {
					reader, err := auth.NewReader(auth.Issuer{
						Issuer: idpIssuer, TenantClaim: "groups", TenantsAllowed: []string{"acme"},
						Require: map[string]string{"email_verified": "true", "hd": "acme.example"},
					})
					if err != nil {
						t.Fatal(err)
					}
					s.Logins[0].Claims = reader
				})
				bad := strings.Replace(good, test.old, test.new, 1)
				w.idp.claims["ann"] = bad
				b := w.browser(t)
				answer := b.get(w.idp.signIn(t, "ann", b.toProvider(base, query(b.register(base, loopback), loopback))))
				if answer.StatusCode != http.StatusForbidden || answer.Header.Get("Location") != "" || w.store.puts > 0 {
					t.Errorf("status %d to %q, %d records", answer.StatusCode, answer.Header.Get("Location"), w.store.puts)
				}
				if !strings.Contains(w.log.String(), "claim="+test.claim) {
					t.Errorf("the log does not name %s: %s", test.claim, w.log)
				}
				w.idp.claims["ann"] = good
				c := w.signIn(t, base, "ann", nil)
				w.idp.set(func() { w.idp.claims["ann"] = bad })
				time.Sleep(time.Minute)
				if status, got := c.refresh(w.server, c.refreshWith); status != http.StatusBadRequest || got["error"] != "invalid_grant" {
					t.Errorf("a refresh: status %d, %v", status, got)
				}
				if _, err := w.verifier(t).Verify(t.Context(), c.access); err == nil {
					t.Error("the access token goes on")
				}
			})
		})
	}
}
