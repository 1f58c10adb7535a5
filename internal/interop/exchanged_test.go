package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/provider"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// ownSignIn stands for the gateway's authorization server: it has the sign-in of one
// person at a provider, and gives her tokens of its own.
type ownSignIn struct {
	key      auth.Key
	provider signin.Provider

	mu       sync.Mutex // guards the fields below
	identity signin.Identity
	gone     bool
}

const ownIssuer = "https://gateway.example"

// tokenOf gives the provider's token, as the store of sign-ins does.
func (o *ownSignIn) tokenOf(_ context.Context, family string) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone || family != "f1" {
		return "", auth.ErrSubjectGone
	}
	return o.identity.AccessToken, nil
}

// refresh has the provider asked for the next token.
func (o *ownSignIn) refresh(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	next, err := o.provider.Refresh(t.Context(), o.identity.RefreshToken)
	if err != nil || next.AccessToken == "" || next.AccessToken == o.identity.AccessToken {
		t.Fatalf("got %v and the same token %v, want another", err, next.AccessToken == o.identity.AccessToken)
	}
	o.identity = next
}

// caller returns the person as a token of the gateway names her.
func (o *ownSignIn) caller(t *testing.T, family string) (*auth.Principal, string) {
	t.Helper()
	token, err := auth.Sign(o.key, "HS256", auth.Claims{
		Issuer: ownIssuer, Subject: "alice", Audience: "gw", IssuedAt: time.Now(), Expiry: time.Now().Add(time.Hour),
		Extra: map[string]any{auth.OriginClaim: "https://login.example", auth.FamilyClaim: family},
	})
	if err != nil {
		t.Fatal(err)
	}
	v, err := auth.New(auth.Config{Issuers: []auth.Issuer{{
		Issuer: ownIssuer, Algorithms: []string{"HS256"}, Audiences: []string{"gw"}, Tenant: "acme",
		SpeaksFor: []string{"https://login.example"}, KeepToken: true, Own: &auth.Own{
			Keys:    func() *auth.PublicKeys { return auth.NewPublicKeys(1, o.key) },
			Revoked: func(string) bool { return false }, TokenOf: o.tokenOf,
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	return &p, token
}

// TestProvidersTokenIsExchangedForThoseWhoSignedInHere signs a person in at the npm
// oidc-provider. The provider's token, and never that of the gateway, is exchanged there;
// another sign-in gets nothing, and neither does one that has ended.
func TestProvidersTokenIsExchangedForThoseWhoSignedInHere(t *testing.T) {
	t.Parallel()
	binary, modules := node(t)
	port := freePort(t)
	cmd := exec.CommandContext(t.Context(), binary, "clients/oidc-provider.mjs", strconv.Itoa(port),
		`{"exchange":true,"rotateRefreshToken":true}`)
	cmd.Env = []string{"NODE_PATH=" + modules, "PATH=/usr/bin:/bin"}
	started := start(t, cmd)
	eventually(t, "the provider listens", func() bool { return strings.Contains(started.out.String(), "listening") })
	issuer := "http://127.0.0.1:" + strconv.Itoa(port)
	p := providerFor(t, issuer, func(cfg *provider.Config) { cfg.Scopes = []string{"openid", "offline_access"} })
	own := &ownSignIn{provider: p}
	var err error
	if own.key, err = auth.ParseSecret([]byte("f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99")); err != nil {
		t.Fatal(err)
	}
	own.identity, _, _ = goThrough(t, newPerson(t), p, map[string]string{"login": "alice", "password": "any"})
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a-client-secret-of-some-length"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := credential.New(credential.Config{
		Server: "erp", Issuer: ownIssuer, Client: dial.Client(dial.Config{PrivateAddresses: true}),
		Spec: credential.Spec{Exchange: &credential.Exchange{
			Client: credential.Client{Issuer: issuer, ID: "drawbridge", SecretFile: secret}, Audience: "erp",
		}},
	})
	t.Cleanup(source.Close)
	alice, ours := own.caller(t, "f1")
	whose := func(g *credential.Headers) (subject, grant string) {
		t.Helper()
		header := g.Add(http.Header{}, credential.Trace{})
		if strings.Contains(header.Get("Authorization"), ours) {
			t.Fatal("got the gateway's own token")
		}
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, issuer+"/whose", nil)
		request.Header = header
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var said struct{ Sub, Gty string }
		if err := json.NewDecoder(answer.Body).Decode(&said); err != nil {
			t.Fatal(err)
		}
		return said.Sub, said.Gty
	}
	first, err := source.For(t.Context(), alice)
	if err != nil {
		t.Fatalf("got %v (%v), want a token in exchange", err, errors.Unwrap(err))
	}
	if sub, gty := whose(first); sub != "alice" || gty != "token_exchange" {
		t.Errorf("got a token of %q by %q, want one of alice in exchange", sub, gty)
	}
	own.refresh(t)
	again, _ := own.caller(t, "f1") // with the gateway's next token
	if second, err := source.For(t.Context(), again); err != nil || second != first {
		t.Errorf("got %v, %v, want what was exchanged for the same sign-in", second == first, err)
	}
	other, _ := own.caller(t, "f2")
	if _, err := source.For(t.Context(), other); credential.FaultOf(err) != credential.FaultSignIn {
		t.Errorf("got %v for another sign-in, want that it has no token", err)
	}
}

// TestZitadelExchangesTheTokenOfAPerson signs two people in at the example provider of
// zitadel's library. It gives a token in exchange for that of the one who may be acted
// for. For the other's it gives none, and answers 500.
func TestZitadelExchangesTheTokenOfAPerson(t *testing.T) {
	t.Parallel()
	issuer := zitadel(t)
	p := providerFor(t, issuer, func(cfg *provider.Config) { cfg.Scopes = []string{"openid", "offline_access"} })
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a-client-secret-of-some-length"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := credential.New(credential.Config{
		Server: "erp", Issuer: ownIssuer, Client: dial.Client(dial.Config{PrivateAddresses: true}),
		Spec: credential.Spec{Exchange: &credential.Exchange{Client: credential.Client{
			Issuer: issuer, ID: "drawbridge", SecretFile: secret, Scopes: []string{"openid"},
		}}},
	})
	t.Cleanup(source.Close)
	key, err := auth.ParseSecret([]byte("f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"test-user@127.0.0.1": "id1", "test-user2": ""} {
		own := &ownSignIn{provider: p, key: key}
		own.identity, _, _ = goThrough(t, newPerson(t), p, zitadelPerson(name))
		caller, _ := own.caller(t, "f1")
		caller.Subject = name // each is a user of its own
		g, err := source.For(t.Context(), caller)
		if want == "" {
			if credential.FaultOf(err) != credential.FaultAway {
				t.Errorf("%s: got %v, %v, want a fault of the endpoint", name, g, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: got %v (%v), want a token in exchange", name, err, errors.Unwrap(err))
			continue
		}
		header := g.Add(http.Header{}, credential.Trace{})
		if header.Get("Authorization") == "Bearer "+own.identity.AccessToken {
			t.Errorf("%s: got the person's own token", name)
		}
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, issuer+"userinfo", nil)
		request.Header = header
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		var said struct{ Sub string }
		if err := json.NewDecoder(answer.Body).Decode(&said); err != nil || said.Sub != want {
			t.Errorf("%s: got a token of %q, %v, want %q", name, said.Sub, err, want)
		}
		_ = answer.Body.Close()
	}
}
