package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
)

// oneKey is a key set for EdDSA.
const oneKey = `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a",` +
	`"x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`

// newLoginServer returns a provider that knows one callback, and whose key set is that of
// set.
func newLoginServer(t *testing.T, callback, set string) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{ // a test that gets half of it fails
			"issuer": web.URL, "authorization_endpoint": web.URL + "/authorize",
			"token_endpoint": web.URL + "/token", "jwks_uri": web.URL + "/keys",
			"scopes_supported": []string{"openid"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(set)) })
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("redirect_uri") != callback {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		http.Redirect(w, r, callback+"?error=login_required", http.StatusFound)
	})
	return web
}

// TestOnlineTriesLogins shows what an operator reads of a provider before anybody signs
// in.
func TestOnlineTriesLogins(t *testing.T) {
	web := newLoginServer(t, "https://mcp.example.com/callback/login", `{"keys":[]}`)
	for name, want := range map[string]string{
		"login": "come back to https://mcp.example.com/callback/login; the provider does not list the scope " +
			`"email"`,
		"other": "register this address there",
	} {
		cfg := &config.Config{PublicURL: "https://mcp.example.com", Logins: []config.Login{{
			Issuer: auth.Issuer{Issuer: web.URL}, Name: name, ClientID: "drawbridge", PrivateAddresses: true,
			Secret: "a-client-secret-of-some-length", Scopes: []string{"openid", "email", "offline_access"},
		}}}
		checks := tryAll(t.Context(), cfg, triesBeside(cfg))
		if len(checks) != 1 || checks[0].OK != (name == "login") || !strings.Contains(checks[0].Message, want) {
			t.Errorf("got %+v, want %q in it", checks, want)
		}
		cfg.Logins[0].PrivateAddresses = false
		if checks = tryAll(t.Context(), cfg, triesBeside(cfg)); checks[0].OK {
			t.Errorf("a login on this machine is connected to without private_addresses: %+v", checks)
		}
	}
}

// TestKeySetIsFoundByTheProvidersDocument has an issuer with sign_in and no jwks_url, and
// a token that the provider signed itself.
func TestKeySetIsFoundByTheProvidersDocument(t *testing.T) {
	web := newLoginServer(t, "", oneKey)
	iss := config.Issuer{
		Issuer: auth.Issuer{
			Issuer: web.URL, JWKSURL: web.URL + "/.well-known/openid-configuration", Algorithms: []string{"EdDSA"},
			Audiences: []string{"us"}, Tenant: "acme",
		},
		Discover: true, PrivateAddresses: true,
	}
	if _, err := tryKeySet(t.Context(), withKeySet(iss)); err != nil {
		t.Error(err)
	}
	v, err := newVerifiers([]config.Issuer{iss}, keySetStorage{}, slog.New(slog.DiscardHandler), func() {})
	if err != nil {
		t.Fatal(err)
	}
	v.start(t.Context())
	eventually(t, "the key set is there", func() bool { return v.current.Load().HasKeys() })
	iss.PrivateAddresses = false
	if _, err := tryKeySet(t.Context(), withKeySet(iss)); err == nil {
		t.Error("a document on this machine is read without private_addresses")
	}
}

// TestKeySetThatCannotBeReadIsNone has a key set whose connection ends in the middle, and
// one that is none: explain goes on without it, as without one that is away, and knows
// the tokens of another issuer.
func TestKeySetThatCannotBeReadIsNone(t *testing.T) {
	for _, length := range []string{"100", "9"} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", length)
			_, _ = io.WriteString(w, `{"keys":[`)
		}))
		defer web.Close()
		key := newKey(t)
		away, there := issuerOf("https://away.example"), issuerOf("https://there.example")
		away.JWKSURL, away.PrivateAddresses, there.Keys = web.URL, true, []auth.Key{key}
		cfg := &config.Config{Issuers: []config.Issuer{away, there}}
		for issuer, want := range map[string]string{
			away.Issuer.Issuer: "its signature was not checked", there.Issuer.Issuer: "its signature is good",
		} {
			w, v := &walk{cfg: cfg, asked: asked{online: true}}, &spoken{text: tokenBy(t, key, issuer)}
			err := w.verify(t.Context(), &givenOut{issuers: w.cfg.Issuers}, v)
			told := strings.Contains(w.out.String(), "cannot be fetched")
			if err != nil || v.checked != want || v.principal.Subject != "ann" ||
				told != (issuer == away.Issuer.Issuer) {
				t.Errorf("of %s with %s bytes: got %v, %q, subject %q and %q, want %q", issuer, length, err,
					v.checked, v.principal.Subject, w.out.String(), want)
			}
		}
	}
}

// TestExplainConcludesFirstThatATokenIsRefused has an expired token of an issuer whose
// keys cannot be fetched, which is said, too.
func TestExplainConcludesFirstThatATokenIsRefused(t *testing.T) {
	away, file := issuerOf("https://away.example"), filepath.Join(t.TempDir(), "token")
	away.JWKSURL, away.PrivateAddresses = "http://127.0.0.1:1/keys", true
	text := tokenSince(t, newKey(t), away.Issuer.Issuer, time.Now().Add(-2*time.Hour))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := &walk{cfg: &config.Config{Issuers: []config.Issuer{away}}, asked: asked{online: true, tokenFile: file}}
	if _, refused, err := w.principal(t.Context()); err != nil || refused == nil {
		t.Fatalf("got refusal %v and error %v, want a refusal", refused, err)
	}
	got := w.out.String()
	if !strings.HasPrefix(got, "refused: unauthenticated, expired (the client reads DB-AUTH-EXPIRED)\n\n") ||
		!strings.Contains(got, "\nkeys      cannot be fetched: ") {
		t.Errorf("got %s", got)
	}
}

// TestWithoutOnlineExplainWaitsForNoKeys has a token of an issuer whose keys are fetched.
func TestWithoutOnlineExplainWaitsForNoKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		iss, began := issuerOf("https://away.example"), time.Now()
		iss.JWKSURL = "https://away.example/keys"
		w, v := &walk{cfg: &config.Config{Issuers: []config.Issuer{iss}}}, &spoken{
			text: tokenBy(t, newKey(t), iss.Issuer.Issuer),
		}
		err := w.verify(t.Context(), &givenOut{issuers: w.cfg.Issuers}, v)
		if took := time.Since(began); err != nil || v.principal.Subject != "ann" || took > 0 {
			t.Errorf("after %v got %v and subject %q, want ann at once", took, err, v.principal.Subject)
		}
	})
}

// issuerOf returns an issuer that has no keys yet.
func issuerOf(name string) config.Issuer {
	return config.Issuer{Issuer: auth.Issuer{
		Issuer: name, Algorithms: []string{"EdDSA"}, Audiences: []string{"us"}, Tenant: "acme",
	}}
}

func newKey(t *testing.T) auth.Key {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return auth.Key{ID: "a", Public: public, Private: private}
}

// tokenBy returns a token of ann that lasts for an hour.
func tokenBy(t *testing.T, key auth.Key, issuer string) string {
	t.Helper()
	return tokenSince(t, key, issuer, time.Now())
}

// tokenSince returns a token of ann that was issued then, and lasts for an hour.
func tokenSince(t *testing.T, key auth.Key, issuer string, then time.Time) string {
	t.Helper()
	text, err := auth.Sign(key, "EdDSA", auth.Claims{
		Issuer: issuer, Subject: "ann", Audience: "us", IssuedAt: then, Expiry: then.Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}
