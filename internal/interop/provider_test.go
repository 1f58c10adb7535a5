package interop_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/provider"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
)

const signInCallback = "https://mcp.example.com/callback/login"

// person is a browser of somebody who signs in, and shows what is asked for.
type person struct {
	*http.Client

	t    *testing.T
	code url.Values // that the provider sent the browser back with
}

// newPerson returns a browser. It does not go to the callback, which is the gateway's.
func newPerson(t *testing.T) *person {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{t: t}
	p.Client = &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), signInCallback+"?") {
			p.code = r.URL.Query()
			return http.ErrUseLastResponse
		}
		return nil
	}}
	return p
}

var (
	formAction = regexp.MustCompile(`(?s)<form[^>]*action="([^"]*)"`)
	formInput  = regexp.MustCompile(`<input[^>]*>`)
	inputName  = regexp.MustCompile(`name="([^"]*)"`)
	inputValue = regexp.MustCompile(`value="([^"]*)"`)
)

// signIn goes to an address and fills in each form that it is shown, until the provider
// sends the browser back. It returns what it brings back.
func (p *person) signIn(address string, fields map[string]string) url.Values {
	p.t.Helper()
	p.code = nil
	answer := p.visit(http.MethodGet, address, nil)
	for range 6 {
		if p.code != nil {
			return p.code
		}
		action := formAction.FindStringSubmatch(answer.page)
		if action == nil {
			break
		}
		form := url.Values{}
		for _, input := range formInput.FindAllString(answer.page, -1) {
			if name := inputName.FindStringSubmatch(input); name != nil {
				value := ""
				if found := inputValue.FindStringSubmatch(input); found != nil {
					value = found[1]
				}
				if own, has := fields[name[1]]; has {
					value = own
				}
				form.Set(name[1], value)
			}
		}
		to, err := answer.at.Parse(strings.ReplaceAll(action[1], "&amp;", "&"))
		if err != nil {
			p.t.Fatal(err)
		}
		answer = p.visit(http.MethodPost, to.String(), form)
	}
	if p.code == nil {
		p.t.Fatalf("no way back from %s: %.2000s", answer.at, answer.page)
	}
	return p.code
}

// visitedPage is a page and where it is.
type visitedPage struct {
	at   *url.URL
	page string
}

func (p *person) visit(method, address string, form url.Values) visitedPage {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		p.t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	response, err := p.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return visitedPage{response.Request.URL, string(page)}
}

func newAttempt() signin.Attempt {
	return signin.Attempt{
		State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier(),
		Callback: signInCallback,
	}
}

// providerFor returns the gateway's side of a provider on this machine.
func providerFor(t *testing.T, issuer string, change func(*provider.Config)) *provider.OIDC {
	t.Helper()
	cfg := provider.Config{
		Name: "login", Issuer: issuer, ClientID: "drawbridge", ClientSecret: "a-client-secret-of-some-length",
		Client: dial.Client(dial.Config{PrivateAddresses: true}), Plain: true,
		Scopes: provider.DefaultScopes(issuer), Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	if change != nil {
		change(&cfg)
	}
	return provider.New(cfg)
}

// goThrough signs somebody in and redeems the code.
func goThrough(t *testing.T, who *person, p signin.Provider, fields map[string]string) (
	signin.Identity, signin.Attempt, url.Values,
) {
	t.Helper()
	a := newAttempt()
	address, err := p.AuthURL(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	back := who.signIn(address, fields)
	if back.Get("state") != a.State {
		t.Fatalf("came back with %v", back)
	}
	id, err := p.Exchange(t.Context(), a, back.Get("code"), back.Get("iss"))
	if err != nil {
		t.Fatal(err)
	}
	return id, a, back
}

func claimsIn(t *testing.T, id signin.Identity) map[string]any {
	t.Helper()
	var claims map[string]any
	if err := json.Unmarshal(id.Claims, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// TestSignInAtOIDCProvider signs somebody in at the npm oidc-provider, in several of its
// settings.
func TestSignInAtOIDCProvider(t *testing.T) {
	t.Parallel()
	alice := map[string]string{"login": "alice", "password": "any"}
	t.Run("rotation", func(t *testing.T) {
		t.Parallel()
		issuer := oidcProvider(t, map[string]any{"rotateRefreshToken": true})
		p := providerFor(t, issuer, func(cfg *provider.Config) {
			cfg.Scopes = []string{"openid", "email", "groups", "offline_access"}
		})
		if notes, err := p.Try(t.Context(), signInCallback, []string{"groups"}); err != nil {
			t.Errorf("tried: %v, %q", err, notes)
		}
		if _, err := p.Try(t.Context(), "https://mcp.example.com/callback/other", nil); err == nil {
			t.Error("a callback that is not registered is tried without a fault")
		}
		who := newPerson(t)
		id, a, back := goThrough(t, who, p, alice)
		if back.Get("iss") != issuer {
			t.Errorf("came back with %v, want iss", back)
		}
		claims := claimsIn(t, id)
		// The library has them in userinfo alone.
		if claims["email"] != "alice@example.com" || len(claims["groups"].([]any)) != 2 || claims["sub"] != "alice" {
			t.Errorf("got claims %v", claims)
		}
		if _, err := p.Exchange(t.Context(), a, back.Get("code"), ""); err == nil {
			t.Error("an answer without iss is taken from a provider that promises it")
		}
		if _, err := p.Exchange(t.Context(), a, back.Get("code"), issuer); !errors.Is(err, signin.ErrSignInAgain) {
			t.Errorf("a spent code: %v", err)
		}
		// That also ended what the code had brought, as RFC 6749 4.1.2 wants.
		if _, err := p.Refresh(t.Context(), id.RefreshToken); !errors.Is(err, signin.ErrSignInAgain) {
			t.Errorf("a token of a code that came twice: %v", err)
		}
		id, _, _ = goThrough(t, who, p, alice)
		spent := id.RefreshToken
		id, err := p.Refresh(t.Context(), spent)
		if err != nil {
			t.Fatal(err)
		}
		if claims := claimsIn(t, id); len(claims["groups"].([]any)) != 2 {
			t.Errorf("after a refresh got claims %v", claims)
		}
		if id.RefreshToken == spent {
			t.Error("the refresh token was not replaced")
		}
	})

	t.Run("key and pairwise subjects", func(t *testing.T) {
		t.Parallel()
		key, jwk := newSigningKey(t)
		issuer := oidcProvider(t, map[string]any{
			"subjectTypes": []string{"pairwise"},
			"client": map[string]any{
				"client_secret": nil, "token_endpoint_auth_method": "private_key_jwt", "subject_type": "pairwise",
				"token_endpoint_auth_signing_alg": "EdDSA", "jwks": map[string]any{"keys": []any{jwk}},
			},
			"enabledJWA":           map[string]any{"clientAuthSigningAlgValues": []string{"EdDSA", "RS256"}},
			"conformIdTokenClaims": false,
			"clientAuthMethods":    []string{"private_key_jwt"},
		})
		p := providerFor(t, issuer, func(cfg *provider.Config) {
			cfg.ClientSecret, cfg.ClientKey = "", key
			cfg.Scopes = []string{"openid", "email", "offline_access"}
		})
		id, _, _ := goThrough(t, newPerson(t), p, alice)
		claims := claimsIn(t, id)
		if claims["sub"] == "alice" || claims["sub"] == "" || claims["email"] != "alice@example.com" {
			t.Errorf("got claims %v", claims)
		}
		if _, err := p.Refresh(t.Context(), id.RefreshToken); err != nil {
			t.Error(err)
		}
	})

	t.Run("logout", func(t *testing.T) {
		t.Parallel()
		tokens := make(chan string, 1)
		gateway := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			tokens <- r.PostFormValue("logout_token")
		}))
		t.Cleanup(gateway.Close)
		issuer := oidcProvider(t, map[string]any{
			"logout":   gateway.URL,
			"features": map[string]any{"backchannelLogout": map[string]any{"enabled": true}},
		})
		p := providerFor(t, issuer, nil)
		who := newPerson(t)
		id, _, _ := goThrough(t, who, p, alice)
		page := who.visit(http.MethodGet, issuer+"/session/end", nil)
		xsrf := regexp.MustCompile(`name="xsrf" value="([^"]*)"`).FindStringSubmatch(page.page)
		if xsrf == nil {
			t.Fatalf("no form to sign out: %s", page.page)
		}
		who.visit(http.MethodPost, issuer+"/session/end/confirm", url.Values{"xsrf": {xsrf[1]}, "logout": {"yes"}})
		var token string
		select {
		case token = <-tokens:
		case <-time.After(patient):
			t.Fatal("the provider tells of no logout")
		}
		out, err := p.VerifyLogout(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		if out.Subject != "alice" || out.SessionID == "" || out.SessionID != id.SessionID {
			t.Errorf("got %+v, want the session %q", out, id.SessionID)
		}
	})
}

// TestSignInAtZitadel signs somebody in at the example provider of zitadel's library,
// which has another way with scopes, claims and refresh tokens than oidc-provider.
func TestSignInAtZitadel(t *testing.T) {
	t.Parallel()
	issuer := zitadel(t)
	p := providerFor(t, issuer, func(cfg *provider.Config) {
		cfg.Scopes = []string{"openid", "profile", "email", "offline_access"}
	})
	if notes, err := p.Try(t.Context(), signInCallback, []string{"email"}); err != nil {
		t.Errorf("tried: %v, %q", err, notes)
	}
	who := zitadelPerson("test-user@127.0.0.1")
	id, a, back := goThrough(t, newPerson(t), p, who)
	claims := claimsIn(t, id)
	if claims["sub"] != "id1" || claims["email"] != "test-user@zitadel.ch" || claims["email_verified"] != true {
		t.Errorf("got claims %v", claims)
	}
	if _, err := p.Exchange(t.Context(), a, back.Get("code"), back.Get("iss")); err == nil {
		t.Error("a spent code is taken")
	}
	// Another attempt's answer, and a code without the verifier that belongs to it.
	other := newAttempt()
	if _, err := p.Exchange(t.Context(), other, back.Get("code"), ""); err == nil {
		t.Error("a code is taken for another attempt")
	}
	next, err := p.Refresh(t.Context(), id.RefreshToken)
	if err != nil {
		t.Fatal(err)
	}
	if next.RefreshToken == "" || next.RefreshToken == id.RefreshToken || claimsIn(t, next)["sub"] != "id1" {
		t.Errorf("after a refresh got %q and claims %v", next.RefreshToken, claimsIn(t, next))
	}
	if _, err := p.Refresh(t.Context(), id.RefreshToken); !errors.Is(err, signin.ErrSignInAgain) {
		t.Errorf("a spent refresh token: %v", err)
	}
}

// zitadel starts the example provider of zitadel's library, and returns its issuer.
func zitadel(t *testing.T) (issuer string) {
	t.Helper()
	program := built(t, "zitadel", ".", "-C", "zitadel")
	port := freePort(t)
	address := "127.0.0.1:" + strconv.Itoa(port)
	start(t, exec.CommandContext(t.Context(), program, strconv.Itoa(port), signInCallback))
	eventually(t, "the provider listens", func() bool { return listening(address) })
	return "http://" + address + "/"
}

// zitadelPerson returns what somebody fills in there.
func zitadelPerson(name string) map[string]string {
	return map[string]string{"username": name, "password": "verysecure"}
}

// oidcProvider starts the npm oidc-provider with settings of its own, and returns its
// issuer.
func oidcProvider(t testing.TB, settings map[string]any) (issuer string) {
	t.Helper()
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(freePort(t))
	p := nodeProcess(t, nil, "clients/oidc-provider.mjs", port, string(text))
	eventually(t, "the provider listens", func() bool { return strings.Contains(p.out.String(), "listening") })
	return "http://127.0.0.1:" + port
}

// newSigningKey returns a key of a client, and what the provider is told of it.
func newSigningKey(t *testing.T) (*auth.Key, map[string]any) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &auth.Key{ID: "client-1", Public: public, Private: private}, map[string]any{
		"kty": "OKP", "crv": "Ed25519", "kid": "client-1", "use": "sig",
		"x": base64.RawURLEncoding.EncodeToString(public),
	}
}
