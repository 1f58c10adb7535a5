package signin_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// forged returns tokens that strangers can make, by how: their headers name keys in
// files, at addresses and in themselves, and algorithms that need none. The public key of
// the server stands for a secret in one.
func forged(t *testing.T, w *world, claims string) map[string]string {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	made := map[string]string{}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	served := w.browser(t).get(base + "/jwks")
	key := object(t, served)["keys"].([]any)[0].(map[string]any)
	for name, header := range map[string]string{
		"none":          `{"alg":"none"}`,
		"none in caps":  `{"alg":"NONE","typ":"at+jwt"}`,
		"kid of ours":   fmt.Sprintf(`{"alg":"EdDSA","kid":%q}`, key["kid"]),
		"kid of a file": `{"alg":"EdDSA","kid":"../../../../dev/null"}`,
		"kid of SQL":    `{"alg":"EdDSA","kid":"x' UNION SELECT 'AA"}`,
		"jku":           `{"alg":"EdDSA","jku":"https://127.0.0.1:1/keys"}`,
		"x5u":           `{"alg":"EdDSA","x5u":"https://127.0.0.1:1/keys"}`,
		"jwk":           fmt.Sprintf(`{"alg":"EdDSA","jwk":{"kty":"OKP","crv":"Ed25519","x":%q}}`, encode(public)),
		"crit":          `{"alg":"EdDSA","crit":["b64"],"b64":false}`,
		"HMAC":          `{"alg":"HS256","typ":"at+jwt"}`,
	} {
		input := encode([]byte(header)) + "." + encode([]byte(claims))
		made[name] = input + "." + encode(ed25519.Sign(private, []byte(input)))
		if strings.Contains(name, "none") {
			made[name] = input + "."
		}
	}
	// Who takes the public key for a secret believes this one.
	input := encode([]byte(`{"alg":"HS256","typ":"at+jwt"}`)) + "." + encode([]byte(claims))
	mac := hmac.New(sha256.New, []byte(key["x"].(string)))
	mac.Write([]byte(input))
	made["HMAC by the public key"] = input + "." + encode(mac.Sum(nil))
	return made
}

// TestForgedTokensProveNothing brings tokens that strangers have made to the token
// endpoint and to that of revocations: as the proof of a client, as a code, as a token to
// refresh or to exchange, and as one to revoke. None of them counts, and nothing else is
// believed in their place.
func TestForgedTokensProveNothing(t *testing.T) {
	t.Parallel()
	const redirect = "https://app.example/cb"
	w := newWorld(t, func(_ *signin.Config, s *signin.Settings) {
		s.Clients = []clients.Fixed{
			fixed("web", clients.Fixed{Secret: strings.Repeat("s3", 16), Redirects: []string{redirect}}),
			fixed("ci", clients.Fixed{
				Secret: strings.Repeat("s4", 16), Grants: []string{"client_credentials"}, Tenant: "acme", Scopes: []string{"admin"},
			}),
		}
	})
	c := w.signIn(t, base, "ann", nil)
	p, err := w.verifier(t).Verify(t.Context(), c.access)
	if err != nil {
		t.Fatal(err)
	}
	_, members := parts(t, c.access)
	claims, err := strictjson.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	b := w.browser(t)
	const jwt = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	for name, token := range forged(t, w, string(claims)) {
		for what, form := range map[string]url.Values{
			"proof":        {"grant_type": {"client_credentials"}, "client_id": {"ci"}, "client_assertion_type": {jwt}, "client_assertion": {token}},
			"proof alone":  {"grant_type": {"client_credentials"}, "client_assertion_type": {jwt}, "client_assertion": {token}},
			"code":         {"grant_type": {"authorization_code"}, "code": {token}, "client_id": {c.id}, "redirect_uri": {loopback}, "code_verifier": {verifier}},
			"refresh":      {"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {c.id}},
			"assertion":    {"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {token}, "client_id": {c.id}},
			"exchange":     {"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {token}, "client_id": {c.id}},
			"device":       {"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {token}, "client_id": {c.id}},
			"its password": {"grant_type": {"password"}, "username": {"ann"}, "password": {token}, "client_id": {c.id}},
		} {
			answer := b.post(base+"/token", form)
			if got := object(t, answer); answer.StatusCode < 400 || answer.StatusCode >= 500 || got["access_token"] != nil {
				t.Errorf("%s as %s: status %d, %v", name, what, answer.StatusCode, got)
			}
		}
		for _, client := range []string{c.id, "web"} {
			b.post(base+"/revoke", url.Values{"token": {token}, "client_id": {client}})
		}
		if _, err := w.verifier(t).Verify(t.Context(), token); err == nil {
			t.Errorf("%s is taken as an access token", name)
		}
	}
	if again, err := w.verifier(t).Verify(t.Context(), c.access); err != nil || again.Subject != p.Subject {
		t.Errorf("the real token after that: %v", err)
	}
	c.mustRefresh(w.server, c.refreshWith)
}

// TestAddressesOfRequestsMeanNothing shows that what a request says of its own address is
// in no document and no redirect: a stranger who chose it would have codes sent to
// himself.
func TestAddressesOfRequestsMeanNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser(t)
	id := b.register(base, loopback)
	for _, path := range []string{
		"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration/t/acme", "/authorize?" + query(id, loopback).Encode(),
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://evil.example"+path, http.NoBody)
		for _, name := range []string{"X-Forwarded-Host", "X-Original-Host", "X-Forwarded-Server", "X-Host"} {
			r.Header.Set(name, "evil.example")
		}
		r.Header.Set("Forwarded", `host="evil.example";proto=http`)
		r.Header.Set("Referer", "https://evil.example/?token="+id)
		answer := b.do(r)
		text, to := read(answer), answer.Header.Get("Location")
		if strings.Contains(text+to, "evil") || !strings.Contains(text+to, url.QueryEscape(base)) && !strings.Contains(text, base) {
			t.Errorf("%s: status %d to %q: %s", path, answer.StatusCode, to, text)
		}
	}
	if strings.Contains(w.log.String(), id) {
		t.Error("the log has what was in a Referer")
	}
}

// TestSecretsInAddressesAreNotTaken shows that codes and tokens count in the body of a
// request alone: addresses are written down on the way.
func TestSecretsInAddressesAreNotTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.signIn(t, base, "ann", nil)
	good := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {c.refreshWith}, "client_id": {c.id}}
	for name, answer := range map[string]*http.Response{
		"all in the query":       c.b.post(base+"/token?"+good.Encode(), url.Values{}),
		"the token in the query": c.b.post(base+"/token?refresh_token="+c.refreshWith, url.Values{"grant_type": {"refresh_token"}, "client_id": {c.id}}),
		"revoked in the query":   c.b.post(base+"/revoke?token="+c.refreshWith, url.Values{"client_id": {c.id}}),
		"by GET":                 c.b.get(base + "/token?" + good.Encode()),
	} {
		if answer.StatusCode != http.StatusBadRequest && answer.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: status %d", name, answer.StatusCode)
		}
	}
	c.mustRefresh(w.server, c.refreshWith)
}
