package provider_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/provider"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
)

const (
	clientID = "drawbridge"
	secret   = "s3cret-of-the-client"
	callback = "https://mcp.example.com/signin/login/callback"
)

// attempt is what the gateway keeps of one person's way through a provider.
var attempt = signin.Attempt{
	State: "state-1", Nonce: "nonce-1", Callback: callback,
	Verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
}

// fake is a provider of OpenID Connect. It keeps the rules of the protocol for what it is
// sent; its fields say how it departs from them. They are set before it is used, or under
// mu.
type fake struct {
	issuer   string
	document map[string]any // members that differ
	claims   map[string]any // of ID tokens
	location string         // where the authorization endpoint sends to; "": it has a page
	userinfo map[string]any // beside sub; nil: there is no such endpoint

	mu       sync.Mutex
	key      auth.Key
	calls    map[string]int // requests, by path
	bad      func(path string, form url.Values) (status int, body string)
	codes    map[string]url.Values // what a code was asked for with
	refresh  string                // the only refresh token that is good
	rotates  bool                  // it is another after each use
	withheld bool                  // no ID token at a refresh
	forms    []url.Values          // that came to the token endpoint
	basic    []string              // user names of Basic that came there
	count    int
}

func newFake(issuer string) *fake {
	return &fake{
		issuer: issuer, key: newKey("key-1"), calls: map[string]int{}, codes: map[string]url.Values{},
		claims: map[string]any{"sub": "alice"}, refresh: "rt-0", document: map[string]any{},
	}
}

func newKey(id string) auth.Key {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return auth.Key{ID: id, Public: key.Public(), Private: key}
}

// RoundTrip answers as the provider does, without a network.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, strings.TrimSuffix(must(url.Parse(f.issuer)).Path, "/"))
	f.calls[path]++
	form := url.Values{}
	if r.Method == http.MethodPost {
		form = must(url.ParseQuery(string(must(io.ReadAll(r.Body)))))
	}
	w.Header().Set("Content-Type", "application/json")
	if f.bad != nil {
		if status, body := f.bad(path, form); status != 0 {
			w.WriteHeader(status)
			w.WriteString(body)
			return w.Result(), nil
		}
	}
	switch path {
	case "/.well-known/openid-configuration":
		f.write(w, f.discovery())
	case "/keys":
		f.write(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: f.key.Public, KeyID: f.key.ID, Algorithm: "ES256", Use: "sig"},
		}})
	case "/authorize":
		if r.URL.Query().Get("prompt") == "none" && f.location != "" {
			w.Header().Set("Location", f.location)
			w.WriteHeader(http.StatusFound)
		}
	case "/token":
		f.token(w, r, form)
	case "/userinfo":
		if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer at-") {
			w.WriteHeader(http.StatusUnauthorized)
			break
		}
		answer := map[string]any{"sub": f.claims["sub"]}
		maps.Copy(answer, f.userinfo)
		f.write(w, answer)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}

func (f *fake) base() string { return strings.TrimSuffix(f.issuer, "/") }

func (f *fake) discovery() map[string]any {
	document := map[string]any{
		"issuer": f.issuer, "authorization_endpoint": f.base() + "/authorize",
		"token_endpoint": f.base() + "/token", "jwks_uri": f.base() + "/keys",
	}
	if f.userinfo != nil {
		document["userinfo_endpoint"] = f.base() + "/userinfo"
	}
	maps.Copy(document, f.document)
	return document
}

func (f *fake) write(w io.Writer, value any) { w.Write(must(json.Marshal(value))) }

// signIn is a browser that goes where the gateway sends it and signs in. It returns the
// code, and what the gateway asked for.
func (f *fake) signIn(t *testing.T, p signin.Provider) (code string, asked url.Values) {
	t.Helper()
	address, err := p.AuthURL(t.Context(), attempt)
	if err != nil {
		t.Fatal(err)
	}
	u := must(url.Parse(address))
	if got, want := u.Scheme+"://"+u.Host+u.Path, f.base()+"/authorize"; got != want {
		t.Fatalf("sent to %s, want %s", got, want)
	}
	if u.Query().Has("resource") {
		t.Fatal("the provider is asked for a resource, which is ours to know")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	code = "code-" + strconv.Itoa(f.count)
	f.codes[code] = u.Query()
	return code, u.Query()
}

// token answers a request to the token endpoint.
func (f *fake) token(w *httptest.ResponseRecorder, r *http.Request, form url.Values) {
	f.forms = append(f.forms, form)
	user, _, _ := r.BasicAuth()
	f.basic = append(f.basic, user)
	nonce, fresh := "", false
	if form.Has("resource") { // as Entra and Google, which know resources of their own alone
		w.WriteHeader(http.StatusBadRequest)
		w.WriteString(`{"error":"invalid_target"}`)
		return
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		asked, known := f.codes[form.Get("code")]
		delete(f.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if !known || asked.Get("redirect_uri") != form.Get("redirect_uri") ||
			asked.Get("code_challenge_method") != "S256" ||
			asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			w.WriteHeader(http.StatusBadRequest)
			w.WriteString(`{"error":"invalid_grant"}`)
			return
		}
		nonce, fresh = asked.Get("nonce"), true
	case "refresh_token":
		if form.Get("refresh_token") != f.refresh {
			w.WriteHeader(http.StatusBadRequest)
			w.WriteString(`{"error":"invalid_grant"}`)
			return
		}
	}
	f.count++
	answer := map[string]any{
		"access_token": "at-" + strconv.Itoa(f.count), "token_type": "Bearer", "expires_in": 3600,
	}
	if fresh || f.rotates {
		f.refresh = "rt-" + strconv.Itoa(f.count)
		answer["refresh_token"] = f.refresh
	}
	if fresh || !f.withheld {
		answer["id_token"] = f.sign(nonce, nil)
	}
	f.write(w, answer)
}

// sign returns an ID token, with other claims than usual; nil leaves one out.
func (f *fake) sign(nonce string, other map[string]any) string {
	now := time.Now()
	all := map[string]any{
		"iss": f.issuer, "aud": clientID, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	if nonce != "" {
		all["nonce"] = nonce
	}
	maps.Copy(all, f.claims)
	maps.Copy(all, other)
	for name, value := range all {
		if value == nil {
			delete(all, name)
		}
	}
	return must(auth.Sign(f.key, "ES256", auth.Claims{Extra: all}))
}

// provider returns the gateway's side of the fake.
func (f *fake) provider(t *testing.T, change func(*provider.Config)) (*provider.OIDC, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	cfg := provider.Config{
		Name: "login", Issuer: f.issuer, ClientID: clientID, ClientSecret: secret,
		Scopes: provider.DefaultScopes(f.issuer), Client: &http.Client{Transport: f},
		Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now,
	}
	if change != nil {
		change(&cfg)
	}
	return provider.New(cfg), &log
}

// newOverGitHub returns GitHub as a provider that is reached by a transport.
func newOverGitHub(transport http.RoundTripper) *provider.GitHub {
	return provider.NewGitHub(provider.Config{
		Name: "github", ClientID: clientID, ClientSecret: secret,
		Scopes: provider.DefaultScopes(provider.GitHubIssuer), Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	})
}

// redeem signs in and redeems the code.
func (f *fake) redeem(t *testing.T, p signin.Provider) (signin.Identity, error) {
	t.Helper()
	code, _ := f.signIn(t, p)
	return p.Exchange(t.Context(), attempt, code, "")
}

// claimsOf returns the claims of an identity.
func claimsOf(t *testing.T, id signin.Identity) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal(id.Claims, &out); err != nil {
		t.Fatalf("claims %s: %v", id.Claims, err)
	}
	return out
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// handled is a transport that a handler answers.
type handled func(w http.ResponseWriter, r *http.Request)

func (h handled) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h(w, r)
	return w.Result(), nil
}
