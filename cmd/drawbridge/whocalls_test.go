package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
)

// logged is the config of a gateway with servers that are told who calls, each in its
// way.
const told = `listen: %s
operator: %s
log: {level: debug}
audit: {file: audit.jsonl}
sessions: {keys_file: keys}
issuers:
  - {issuer: "https://a.example/", hmac_secret_file: secret, algorithms: [HS256], audiences: [us],
	tenant: acme}
  - {issuer: "https://b.example/", hmac_secret_file: secret, algorithms: [HS256], audiences: [us],
	tenant: globex}
tenants:
  acme:
    servers: [crm, erp, api]
    rules: [{allow: ["*"]}]
    limits: {requests: {rate: 100000, burst: 100000}, calls: {rate: 100000, burst: 100000}, user_calls: {rate: 100000, burst: 100000}}
  globex:
    servers: [crm, erp, api]
    rules: [{allow: ["*"]}]
    limits: {requests: {rate: 100000, burst: 100000}, calls: {rate: 100000, burst: 100000}, user_calls: {rate: 100000, burst: 100000}}
    auth: {api: {token_file: globex-secret}}
servers:
  crm: {url: "%s/crm", private_addresses: true, auth: {identity: {audience: crm}, lists: user}}
  erp: {url: "%s/erp", private_addresses: true, auth: {token_exchange: {token_url: "%s/token",
	client_id: gw, client_secret_file: client-secret, audience: erp}}}
  api: {openapi: api.yaml, base_url: "%s/api", include: [create], private_addresses: true,
	auth: {header: {name: X-Api-Key, file: api-secret}}}
`

// canaries are secrets of the gateway that nobody may ever see but whom they are for.
var canaries = map[string]string{
	"client-secret": "canary-client-3f9a1c5e7b", "api-secret": "canary-api-8d2b6f0a4c", "globex-secret": "canary-globex-1e5d9c3b7a",
}

// outside is what there is besides a gateway: an endpoint that exchanges tokens and
// servers that verify who calls. They tell each what it was called with.
type outside struct {
	*httptest.Server

	keys func() string // the address of the gateway's key set

	mu     sync.Mutex        // guards the fields below
	gave   map[string]string // subject by token that was given
	tokens []string          // of either side, that were seen here
	refuse bool              // the endpoint refuses, and repeats what it was sent
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{gave: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/token", o.exchange)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		sent := r.Header.Get("X-Api-Key") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		for name, secret := range canaries {
			if sent == secret {
				fmt.Fprintf(w, `{"is":%q,"with":%q}`, name, sent)
			}
		}
	})
	for path, who := range map[string]func(token string) (string, error){
		"/crm": o.verified,
		"/erp": o.given,
	} {
		server := sdk.NewServer(&sdk.Implementation{Name: "who", Version: "1"}, nil)
		server.AddTool(&sdk.Tool{Name: "who", InputSchema: map[string]any{"type": "object"}},
			func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return &sdk.CallToolResult{Content: []sdk.Content{
					&sdk.TextContent{Text: "called by " + r.Extra.Header.Get("X-Who")},
				}}, nil
			})
		handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			subject, err := who(token)
			if err != nil {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			r.Header.Set("X-Who", subject)
			handler.ServeHTTP(w, r)
		})
	}
	o.Server = httptest.NewServer(mux)
	t.Cleanup(func() {
		o.CloseClientConnections()
		o.Close()
	})
	return o
}

// exchange gives tokens for tokens of callers, and for the gateway itself.
func (o *outside) exchange(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	subject := "gw"
	if token := form.Get("subject_token"); token != "" {
		claims := jwt.MapClaims{}
		_, _, _ = jwt.NewParser().ParseUnverified(token, claims)
		subject = fmt.Sprint(claims["iss"], "#", claims["sub"])
		o.mu.Lock()
		o.tokens = append(o.tokens, token)
		refuse := o.refuse
		o.mu.Unlock()
		if refuse {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"invalid_grant","error_description":%q}`, token)
			return
		}
	}
	_, secret, _ := r.BasicAuth()
	if secret != canaries["client-secret"] {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	o.mu.Lock()
	token := fmt.Sprintf("canary-given-%d-%x", len(o.gave), time.Now().UnixNano())
	o.gave[token] = subject
	o.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w,
		`{"access_token":%q,"token_type":"Bearer","expires_in":600,"issued_token_type":"urn:ietf:params:oauth:token-type:access_token"}`, token)
}

func (o *outside) given(token string) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	subject, is := o.gave[token]
	if !is {
		return "", errors.New("not given here")
	}
	return subject, nil
}

// verified checks an identity by the key set that the gateway serves.
func (o *outside) verified(token string) (string, error) {
	_, text := fetched(o.keys())
	var known struct {
		Keys []struct{ Kid, X, Y string }
	}
	if err := json.Unmarshal([]byte(text), &known); err != nil {
		return "", err
	}
	claims := jwt.MapClaims{}
	_, err := jwt.ParseWithClaims(token, claims, func(j *jwt.Token) (any, error) {
		for _, key := range known.Keys {
			if key.Kid == j.Header["kid"] {
				x, _ := base64.RawURLEncoding.DecodeString(key.X)
				y, _ := base64.RawURLEncoding.DecodeString(key.Y)
				return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...),
					y...))
			}
		}
		return nil, errors.New("no such key")
	}, jwt.WithValidMethods([]string{"ES256"}), jwt.WithAudience("crm"), jwt.WithExpirationRequired())
	if err != nil {
		return "", err
	}
	o.mu.Lock()
	o.tokens = append(o.tokens, token)
	o.mu.Unlock()
	return claims["sub"].(string), nil
}

// startTold starts a gateway that tells those outside who calls.
func startTold(t *testing.T, o *outside) *recorder {
	t.Helper()
	r := &recorder{directory: t.TempDir()}
	var ports [2]string
	for i := range ports {
		address, err := freeport.Address()
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = address
	}
	document, err := os.ReadFile("internal/config/testdata/issues.yaml")
	if err != nil {
		t.Fatal(err)
	}
	keys, _ := keyLines(t, 1)
	for name, text := range map[string]string{
		"secret": "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99", "keys": keys, "api.yaml": string(document),
		"drawbridge.yaml": fmt.Sprintf(told, ports[0], ports[1], o.URL, o.URL, o.URL, o.URL),
	} {
		r.save(t, name, text)
	}
	for name, text := range canaries {
		r.save(t, name, text)
	}
	r.url, r.operator = "http://"+ports[0]+"/mcp", ports[1]
	o.keys = func() string { return "http://" + ports[0] + "/identity/jwks" }
	r.begin(t)
	return r
}

// as returns the gateway as a user of a tenant calls it.
func (r *recorder) as(t *testing.T, tenant, subject string) *recorder {
	t.Helper()
	cfg, err := config.Load(r.path("drawbridge.yaml"), testEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := signToken(cfg, tokenRequest{tenant: tenant, subject: subject, ttl: time.Hour},
		time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &recorder{url: r.url, operator: r.operator, token: token}
}

// TestServersAreToldWhoCalls runs the program before servers that verify who calls. Keys
// are rotated meanwhile, and no call is made in another's name or refused; and no token
// or secret of either side is in any record.
func TestServersAreToldWhoCalls(t *testing.T) {
	t.Parallel()
	o := newOutside(t)
	r := startTold(t, o)
	for _, server := range []string{"crm", "erp"} {
		eventually(t, server+" is up", func() bool {
			return strings.Contains(r.log(),
				`"server up","server":"`+server+`"`)
		})
	}
	if strings.Contains(r.log(), `"server down"`) { // crm asks for the keys while the gateway starts
		t.Error("got a server that was down at the start, want none")
	}
	issuers := map[string]string{"acme": "https://a.example/", "globex": "https://b.example/"}
	callers := map[string]*recorder{}
	for tenant := range issuers {
		for i := range 5 {
			callers[tenant+fmt.Sprint(i)] = r.as(t, tenant, fmt.Sprint("user-", i))
		}
	}
	round := func() {
		t.Helper()
		var all sync.WaitGroup
		for tenant, issuer := range issuers {
			for i := range 20 {
				all.Go(func() {
					own := callers[tenant+fmt.Sprint(i%5)]
					want := fmt.Sprintf("called by %s#user-%d", issuer, i%5)
					for _, tool := range []string{"crm__who", "erp__who"} {
						if got := own.call(tool, ""); !strings.Contains(got.body, want+`"`) {
							t.Errorf("%s for user-%d of %s: got %v, want %q", tool, i%5, tenant, got, want)
						}
					}
				})
			}
		}
		all.Wait()
	}
	round()
	for _, fills := range [][]byte{{1, 2}, {2, 1}, {2}} {
		_, ids := keyLines(t, fills...)
		r.rotate(t, fills...)
		r.hasKeys(t, ids)
		round()
	}
	for tenant, want := range map[string]string{"acme": "api-secret", "globex": "globex-secret"} {
		got := callers[tenant+"0"].post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"api__create",`+
			`"arguments":{"body":{"title":"x"}},`+askedMeta+`}}`, "MCP-Protocol-Version", "2026-07-28",
			"Mcp-Method", "tools/call", "Mcp-Name", "api__create")
		if !strings.Contains(got.body,
			`{"is":"`+want+`","with":"[redacted]"}`) || strings.Contains(got.body, "canary") {
			t.Errorf("the API for %s: got %v, want %q", tenant, got, want)
		}
	}
	var said, wrong bytes.Buffer
	code := run(t.Context(), []string{
		"explain", "-config", r.path("drawbridge.yaml"), "-tenant", "acme", "-subject", "user-1", "-tool", "crm__who",
		"-online",
	}, &said, &wrong)
	if code != exitOK || !strings.Contains(said.String(), "the server decides what this person is listed (lists: user)") {
		t.Errorf("explain: got %d %s%s, want that the server decides", code, &said, &wrong)
	}
	o.mu.Lock()
	o.refuse = true
	o.mu.Unlock()
	refused := r.as(t, "acme", "somebody")
	got := refused.call("erp__who", "")
	if !strings.Contains(got.body, "DB-UPSTREAM-TOKEN") || strings.Contains(got.body, "invalid_grant") {
		t.Errorf("a refused exchange: got %v", got)
	}
	_, metrics := fetched("http://" + r.operator + "/metrics")
	for _, want := range []string{
		`drawbridge_credentials_total{result="tokens_refused",server="erp"}`,
		`drawbridge_credentials_total{result="made",server="crm"}`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	o.mu.Lock()
	exchanged := len(o.gave)
	o.mu.Unlock()
	if exchanged != 12 {
		t.Errorf("got %d tokens given for ten users, the gateway and explain, want 12", exchanged)
	}
	_, page := fetched("http://" + r.operator + "/readyz")
	started := map[string]string{}
	for _, name := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", r.process.Process.Pid, name))
		if err != nil && runtime.GOOS == "linux" {
			t.Fatal(err)
		}
		started[name] = string(text)
	}
	if err := r.process.Process.Signal(syscall.SIGABRT); err != nil { // with all goroutines in the log
		t.Fatal(err)
	}
	<-r.ended
	audit, err := os.ReadFile(r.path("audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	secrets := append([]string{refused.token}, o.tokens...)
	for token := range o.gave {
		secrets = append(secrets, token)
	}
	for _, text := range canaries {
		secrets = append(secrets, text)
	}
	for place, text := range map[string]string{
		"log": r.log(), "audit": string(audit), "metrics": metrics, "page": page, "answer": got.body,
		"command line": started["cmdline"], "environment": started["environ"],
	} {
		for _, secret := range secrets {
			if strings.Contains(text, secret) || strings.Contains(text,
				base64.StdEncoding.EncodeToString([]byte(secret))) {
				t.Fatalf("the %s has a token or secret that begins with %s", place, secret[:12])
			}
		}
	}
	if !strings.Contains(string(audit), `"reason":"tokens_refused"`) {
		t.Error("the audit lacks why the last call was not made")
	}
}

// TestServersAreToldWhatAProviderSaysOfAPerson signs somebody in at the gateway, whose
// config names a claim for a server: the server is told what the provider said.
func TestServersAreToldWhatAProviderSaysOfAPerson(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	server := sdk.NewServer(&sdk.Implementation{Name: "who", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "who", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			claims := jwt.MapClaims{} // others verify
			_, _, err := jwt.NewParser().ParseUnverified(strings.TrimPrefix(r.Extra.Header.Get("Authorization"), "Bearer "), claims)
			groups, _ := claims["groups"].([]any) // that the config does not name
			return &sdk.CallToolResult{Content: []sdk.Content{
				&sdk.TextContent{Text: fmt.Sprintf("%v is %v, of %v", claims["sub"], claims["email"], groups)},
			}}, err
		})
	up := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		up.CloseClientConnections()
		up.Close()
	})
	r := startReplica(t, func(listen, operator string) string {
		return signInHead(listen, operator, d.URL, "tenants: {claim: groups, map: {staff: acme}}") + fmt.Sprintf(`tenants:
  acme: {servers: [crm], rules: [{allow: ["*"]}]}
servers:
  crm: {url: %[1]q, private_addresses: true, auth: {identity: {audience: crm, claims: [email]}}}
`, up.URL)
	})
	eventually(t, "crm is up", func() bool { return strings.Contains(r.log(), `"server up","server":"crm"`) })
	tokens, _, _ := newBrowserClient(t).signIn(r.url)
	r.token = tokens["access_token"].(string)
	want := d.URL + "#ann is ann@corp.example, of []"
	if got := r.call("crm__who", ""); !strings.Contains(got.body, want) {
		t.Errorf("got %v, want %s", got, want)
	}
	if strings.Contains(r.token, "ann@corp") || strings.Contains(r.log(), "ann@corp.example") {
		t.Error("got the claim in the log, want it nowhere but at the server")
	}
}
