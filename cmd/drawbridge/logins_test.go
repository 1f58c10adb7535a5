package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

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
		checks := tryOnline(t.Context(), cfg, registry.New())
		if len(checks) != 1 || checks[0].OK != (name == "login") || !strings.Contains(checks[0].Message, want) {
			t.Errorf("got %+v, want %q in it", checks, want)
		}
		cfg.Logins[0].PrivateAddresses = false
		if checks = tryOnline(t.Context(), cfg, registry.New()); checks[0].OK {
			t.Errorf("a login on this machine is connected to without private_addresses: %+v", checks)
		}
	}
}

// TestKeySetIsFoundByTheProvidersDocument has an issuer with sign_in and no jwks_url, and
// a token that the provider signed itself.
func TestKeySetIsFoundByTheProvidersDocument(t *testing.T) {
	web := newLoginServer(t, "", `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a",`+
		`"x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)
	iss := config.Issuer{
		Issuer: auth.Issuer{
			Issuer: web.URL, JWKSURL: web.URL + "/.well-known/openid-configuration", Algorithms: []string{"EdDSA"},
			Audiences: []string{"us"}, Tenant: "acme",
		},
		Discover: true, PrivateAddresses: true,
	}
	if err := tryKeySet(t.Context(), iss, &check{}); err != nil {
		t.Error(err)
	}
	v, err := newVerifiers([]config.Issuer{iss}, keySetStorage{}, slog.New(slog.DiscardHandler), func() {})
	if err != nil {
		t.Fatal(err)
	}
	v.start(t.Context())
	eventually(t, "the key set is there", func() bool { return v.current.Load().HasKeys() })
	iss.PrivateAddresses = false
	if tryKeySet(t.Context(), iss, &check{}) == nil {
		t.Error("a document on this machine is read without private_addresses")
	}
}

// TestKeySetThatIsCutOffIsNone has a key set whose connection ends in the middle: explain
// goes on without it, as without one that is away.
func TestKeySetThatIsCutOffIsNone(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"keys":[`)
	}))
	defer web.Close()
	w := &walk{asked: asked{online: true}}
	set := w.keySet(t.Context(), &config.Issuer{Issuer: auth.Issuer{JWKSURL: web.URL}, PrivateAddresses: true})
	if set != nil || !strings.Contains(w.out.String(), "cannot be fetched") {
		t.Errorf("got %q and %q, want no set and why", set, w.out.String())
	}
}
