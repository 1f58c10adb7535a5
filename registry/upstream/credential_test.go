package upstream_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

const (
	gatewayAddress = "https://gateway.example"
	serverAudience = "https://crm.example/mcp"
	verifiedAs     = "X-Verified-As" // set by knowing alone
)

// knowing lets in who comes with an identity that the key set verifies, and notes who
// used which session.
type knowing struct {
	keys func() []byte
	next http.Handler

	mu       sync.Mutex // guards the fields below
	sessions map[string]map[string]bool
	refused  int
	traced   map[string]string // subject by id of the request
	refuse   func(subject string) bool
}

func (k *knowing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	subject, err := k.subject(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	k.mu.Lock()
	if k.sessions == nil {
		k.sessions, k.traced = map[string]map[string]bool{}, map[string]string{}
	}
	if id := r.Header.Get("X-Request-Id"); err == nil && id != "" {
		k.traced[id] = subject
	}
	if err == nil && k.refuse != nil && k.refuse(subject) {
		err = errors.New("not any more")
	}
	if err != nil {
		k.refused++
	} else if id := r.Header.Get("Mcp-Session-Id"); id != "" {
		if k.sessions[id] == nil {
			k.sessions[id] = map[string]bool{}
		}
		k.sessions[id][subject] = true
	}
	k.mu.Unlock()
	if err != nil {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="http://169.254.169.254/latest"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	r.Header.Set(verifiedAs, subject)
	k.next.ServeHTTP(w, r)
}

func (k *knowing) subject(token string) (string, error) {
	var known struct {
		Keys []struct{ Kid, X, Y string }
	}
	if err := json.Unmarshal(k.keys(), &known); err != nil {
		return "", err
	}
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(token, claims, func(j *jwt.Token) (any, error) {
		for _, key := range known.Keys {
			if key.Kid == j.Header["kid"] && j.Header["typ"] == credential.Type {
				x, _ := base64.RawURLEncoding.DecodeString(key.X)
				y, _ := base64.RawURLEncoding.DecodeString(key.Y)
				return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...),
					y...))
			}
		}
		return nil, errors.New("no such key")
	}, jwt.WithValidMethods([]string{"ES256"}), jwt.WithIssuer(gatewayAddress),
		jwt.WithAudience(serverAudience), jwt.WithExpirationRequired())
	if err != nil {
		return "", err
	}
	tenant, _ := claims["tenant"].(string)
	return tenant + " " + claims["sub"].(string), nil
}

// listen serves a server that wants identities, and returns what reaches it.
func (k *knowing) listen(t *testing.T, signer *credential.Signer, path string) upstream.Config {
	t.Helper()
	k.keys = signer.KeySet
	s := httptest.NewServer(k)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	source := credential.New(credential.Config{
		Server: "up", Issuer: gatewayAddress, Signer: signer,
		Spec: credential.Spec{Identity: &credential.Identity{Audience: serverAudience}},
	})
	t.Cleanup(source.Close)
	return upstream.Config{URL: s.URL + path, Credential: source}
}

// whoSDK is a server of the Go SDK with a tool that says who it was called by.
func whoSDK(options sdk.StreamableHTTPOptions) http.Handler {
	server := sdk.NewServer(&sdk.Implementation{Name: "who", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "who", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: r.Extra.Header.Get(verifiedAs)}}}, nil
		})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &options)
}

// whoMCPGo is the same of mcp-go, over Streamable HTTP or HTTP+SSE.
func whoMCPGo(overSSE bool) http.Handler {
	server := mcpgoserver.NewMCPServer("who", "1", mcpgoserver.WithToolCapabilities(true))
	type key struct{}
	with := func(ctx context.Context, r *http.Request) context.Context {
		return context.WithValue(ctx, key{}, r.Header.Get(verifiedAs))
	}
	server.AddTool(mcpgo.NewTool("who"), func(ctx context.Context,
		_ mcpgo.CallToolRequest,
	) (*mcpgo.CallToolResult, error) {
		return mcpgo.NewToolResultText(ctx.Value(key{}).(string)), nil
	})
	if overSSE {
		return mcpgoserver.NewSSEServer(server, mcpgoserver.WithSSEContextFunc(with))
	}
	return mcpgoserver.NewStreamableHTTPServer(server, mcpgoserver.WithHTTPContextFunc(with))
}

// callAs calls the tool who as a user.
func (r *rig) callAs(p auth.Principal) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	call := request(r.t, `{"name":"x","arguments":{}}`, nil)
	call.Principal, call.Trace.ID = p, fmt.Sprintf("%s %s#%s", p.TenantID, p.Issuer, p.Subject)
	result, err := r.tool("who").Call(ctx, call)
	if err != nil {
		return "", err
	}
	return text(result), nil
}

func user(tenant, issuer, subject string) auth.Principal {
	return auth.Principal{
		TenantID: tenant, Issuer: issuer, Subject: subject, ClientID: "claude", Expiry: time.Now().Add(time.Hour),
	}
}

// TestServerSeesEachCallUnderItsOwnUser has users of two tenants and two issuers, with
// the same subjects, call servers that verify who calls, all at once.
func TestServerSeesEachCallUnderItsOwnUser(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler http.Handler
		path    string
		kind    string
	}{
		"Go SDK with sessions": {handler: whoSDK(sdk.StreamableHTTPOptions{})},
		"Go SDK stateless":     {handler: whoSDK(sdk.StreamableHTTPOptions{Stateless: true})},
		"mcp-go":               {handler: whoMCPGo(false), path: "/mcp"},
		"mcp-go over HTTP+SSE": {handler: whoMCPGo(true), path: "/sse", kind: "sse"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &knowing{next: test.handler}
			cfg := k.listen(t, credential.NewSigner(time.Now), test.path)
			cfg.Type = test.kind
			// which has no limit for connecting: 120 at once wait for a busy processor
			transport := &http.Transport{MaxIdleConnsPerHost: 120}
			// A POST that is given up because its answer came over the stream can take
			// along one that net/http just put on the same connection.
			transport.DisableKeepAlives = test.kind == "sse"
			t.Cleanup(transport.CloseIdleConnections)
			cfg.Client = &http.Client{Transport: transport}
			r := start(t, cfg)
			r.untilTool("who")
			var all sync.WaitGroup
			for i := range 120 {
				all.Go(func() {
					tenant := []string{"acme", "globex"}[i%2]
					issuer := []string{"https://a.example", "https://b.example"}[i/2%2]
					subject := fmt.Sprint("user-", i/4%5)
					got, err := r.callAs(user(tenant, issuer, subject))
					if want := tenant + " " + issuer + "#" + subject; err != nil || got != want {
						t.Errorf("got %q, %v (%s), want %q", got, err, cause(err), want)
					}
				})
			}
			all.Wait()
			t.Attr("calls", "120")
			k.mu.Lock()
			defer k.mu.Unlock()
			for id, users := range k.sessions {
				if len(users) != 1 {
					t.Errorf("got the session %s used by %v, want one user", id, users)
				}
			}
			for id, subject := range k.traced {
				if id != subject {
					t.Errorf("got the request %q as one of %q", id, subject)
				}
			}
			if len(k.traced) != 20 {
				t.Errorf("got the ids of %d users' requests, want 20", len(k.traced))
			}
			if k.refused > 0 {
				t.Errorf("got %d requests refused, want none", k.refused)
			}
		})
	}
}

// TestRefusedCredentialIsTheCallsOwn has a server refuse one user: nobody else notices,
// the server counts as up, and of what it says about other places nothing is asked.
func TestRefusedCredentialIsTheCallsOwn(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.Handler{
		"sessions": whoSDK(sdk.StreamableHTTPOptions{}), "stateless": whoSDK(sdk.StreamableHTTPOptions{Stateless: true}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := &knowing{
				next:   handler,
				refuse: func(subject string) bool { return strings.HasSuffix(subject, "#mallory") },
			}
			r := start(t, k.listen(t, credential.NewSigner(time.Now), ""))
			r.untilTool("who")
			for range 5 {
				_, err := r.callAs(user("acme", "https://a.example", "mallory"))
				unavailable, ok := errors.AsType[*registry.UnavailableError](err)
				if !ok || unavailable.Credential != credential.FaultRefused || unavailable.Sent {
					t.Fatalf("got %#v, want a refused credential", err)
				}
				if got, err := r.callAs(user("acme", "https://a.example",
					"ann")); err != nil || got != "acme https://a.example#ann" {
					t.Fatalf("got %q, %v, want ann served", got, err)
				}
			}
			if got := r.last(); !got.Up || got.Restarts > 0 {
				t.Errorf("got %+v, want a server that is up", got)
			}
		})
	}
}

// TestCredentialOfAFileIsTakenAnewAfterARefusal rotates the secret of a server while
// calls go on, without a word to the gateway.
func TestCredentialOfAFileIsTakenAnewAfterARefusal(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]http.Handler{
		"sessions": whoSDK(sdk.StreamableHTTPOptions{}), "stateless": whoSDK(sdk.StreamableHTTPOptions{Stateless: true}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "token")
			var mu sync.Mutex
			secret := "first-secret"
			rotate := func(to string) {
				mu.Lock()
				defer mu.Unlock()
				secret = to
				if err := os.WriteFile(path, []byte(to), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			rotate("first-secret")
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				good := r.Header.Get("Authorization") == "Bearer "+secret
				mu.Unlock()
				if !good {
					w.WriteHeader(http.StatusUnauthorized)
					return
				}
				next.ServeHTTP(w, r)
			}))
			t.Cleanup(func() {
				s.CloseClientConnections()
				s.Close()
			})
			source := credential.New(credential.Config{
				Server: "up",
				Spec:   credential.Spec{TokenFile: path},
			})
			t.Cleanup(source.Close)
			r := start(t, upstream.Config{URL: s.URL, Credential: source})
			r.untilTool("who")
			for i := range 20 {
				if i%5 == 4 {
					rotate(fmt.Sprint("secret-number-", i))
				}
				if _, err := r.callAs(user("acme", "https://a.example", "ann")); err != nil {
					t.Fatalf("call %d: got %v (%s), want it served", i, err, cause(err))
				}
			}
		})
	}
}

// TestLongCallIsResumedForWhomItIs has the token of a caller end during a call, and then
// the stream of the answer break off: the answer is asked for on behalf of the caller, as
// the call was, and not as what keeps a session.
func TestLongCallIsResumedForWhomItIs(t *testing.T) {
	t.Parallel()
	var id atomic.Value
	signer := credential.NewSigner(time.Now)
	s := serve(t, &web{session: "s", call: func(w http.ResponseWriter, _ *http.Request, m wire) {
		id.Store(string(m.ID))
		events(w)("id: e1\nretry: 4500\ndata:\n\n")
	}})
	s.stream = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-Id") == "" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		events(w)("id: e2\n%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id.Load(), okResult))
	}
	cfg := s.config()
	cfg.Credential = credential.New(credential.Config{
		Server: "up", Issuer: gatewayAddress, Signer: signer,
		Spec: credential.Spec{Identity: &credential.Identity{Audience: serverAudience}},
	})
	t.Cleanup(cfg.Credential.Close)
	r := start(t, cfg)
	r.untilTool("tool")
	call := request(t, `{"name":"x","arguments":{}}`, nil)
	call.Principal = user("acme", "https://a.example", "ann")
	call.Principal.Expiry = time.Now().Add(4 * time.Second)
	result, err := r.tool("tool").Call(t.Context(), call)
	if err != nil || text(result) != "ok" {
		t.Errorf("got %s, %v (%s), want the answer", result.JSON(), err, cause(err))
	}
}

// TestResourcesOfKnownCallersAreNotWatched: a subscription is a tenant's, and a change
// that one user may know of is none of another's.
func TestResourcesOfKnownCallersAreNotWatched(t *testing.T) {
	t.Parallel()
	for name, stateless := range map[string]bool{"sessions": false, "stateless": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := sdk.NewServer(&sdk.Implementation{Name: "who", Version: "1"}, &sdk.ServerOptions{
				SubscribeHandler: func(context.Context, *sdk.SubscribeRequest) error {
					t.Error("got a subscription at the server, want none")
					return nil
				},
				UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
			})
			server.AddResource(&sdk.Resource{Name: "mine", URI: "file:///mine"}, nil)
			k := &knowing{next: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
				&sdk.StreamableHTTPOptions{Stateless: stateless})}
			r := start(t, k.listen(t, credential.NewSigner(time.Now), ""))
			r.until("the resource is there", func() bool { return len(r.names()) > 0 })
			err := newWatcher(t).follow(r, "acme", "file:///mine")
			if answered, ok := errors.AsType[*mcp.Error](err); !ok || answered.Code != mcp.CodeInvalidParams {
				t.Errorf("got %v, want that the server does not tell of changes", err)
			}
		})
	}
}

// TestNothingThatAServerNamesIsAsked has a server refuse, or redirect, in ways that name
// other places: for metadata, for tokens, or for messages. No place that it names is
// asked, neither at its own address nor elsewhere, and no credential leaves for one.
func TestNothingThatAServerNamesIsAsked(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("got %s %s elsewhere, with %q", r.Method, r.URL, r.Header["Authorization"])
	}))
	t.Cleanup(elsewhere.Close)
	ways := map[string]func(h http.Header) int{}
	for _, challenge := range []string{
		`Bearer resource_metadata="%[1]s/.well-known/oauth-protected-resource"`,
		`Bearer error="invalid_token", resource_metadata="%[1]s/meta", scope="all"`,
		`Bearer authorization_uri="%[1]s/authorize", resource_id="x"`,
		`Bearer realm="%[1]s", as_uri="%[1]s", issuer="%[1]s", token_endpoint="%[1]s/token"`,
		`Basic realm="%[1]s"`, `Negotiate`, `DPoP algs="ES256"`,
	} {
		ways[challenge] = func(h http.Header) int {
			h.Set("WWW-Authenticate", fmt.Sprintf(challenge, elsewhere.URL))
			h.Set("Link", fmt.Sprintf(`<%s/as>; rel="oauth2-issuer"`, elsewhere.URL))
			return http.StatusUnauthorized
		}
	}
	for _, status := range []int{301, 302, 303, 307, 308, 401, 403, 407} {
		ways[fmt.Sprint(status)] = func(h http.Header) int {
			h.Set("Location", elsewhere.URL+"/mcp")
			return status
		}
	}
	next := whoSDK(sdk.StreamableHTTPOptions{})
	for name, refuse := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/mcp" {
					t.Errorf("got %s %s, want nothing but /mcp", r.Method, r.URL)
				}
				if strings.HasSuffix(r.Header.Get(verifiedAs), "#mallory") {
					w.WriteHeader(refuse(w.Header()))
					return
				}
				next.ServeHTTP(w, r)
			})
			r := start(t, (&knowing{next: guarded}).listen(t, credential.NewSigner(time.Now), "/mcp"))
			r.untilTool("who")
			for range 2 {
				if got, err := r.callAs(user("acme", "https://a.example", "mallory")); err == nil {
					t.Errorf("got %q, want a call that is refused", got)
				}
			}
			if got, err := r.callAs(user("acme", "https://a.example", "ann")); err != nil || got != "acme https://a.example#ann" {
				t.Errorf("got %q, %v, want ann served", got, err)
			}
		})
	}
}

// TestSessionIsNotUsedAfterAChangeOfTenant has a user call with a client, and then again
// with a token of another tenant: the server sees another session for it, and none that
// two have used.
func TestSessionIsNotUsedAfterAChangeOfTenant(t *testing.T) {
	t.Parallel()
	k := &knowing{next: whoSDK(sdk.StreamableHTTPOptions{})}
	r := start(t, k.listen(t, credential.NewSigner(time.Now), ""))
	r.untilTool("who")
	for _, tenant := range []string{"acme", "globex", "acme", "globex"} {
		got, err := r.callAs(user(tenant, "https://a.example", "ann"))
		if want := tenant + " https://a.example#ann"; err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	people := 0
	for id, users := range k.sessions {
		if len(users) != 1 {
			t.Errorf("got the session %s used by %v, want one user of one tenant", id, users)
		}
		for subject := range users {
			if strings.HasSuffix(subject, "#ann") {
				people++
			}
		}
	}
	if people != 2 {
		t.Errorf("got %d sessions of ann, want one for each tenant", people)
	}
}
