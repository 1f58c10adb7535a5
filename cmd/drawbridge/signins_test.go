package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// directory is an identity provider at which ann is signed in already.
type directory struct {
	*httptest.Server

	key ed25519.PrivateKey

	mu     sync.Mutex        // guards the fields below
	nonces map[string]string // by code
	secret string            // with which the gateway asked last
}

func newDirectory(t *testing.T) *directory {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	d := &directory{key: key, nonces: map[string]string{}}
	mux := http.NewServeMux()
	d.Server = httptest.NewServer(mux)
	t.Cleanup(d.Close)
	answer := func(w http.ResponseWriter, document map[string]any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(document) // a test that gets half of it fails
	}
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": d.URL, "authorization_endpoint": d.URL + "/authorize", "token_endpoint": d.URL + "/token",
			"jwks_uri": d.URL + "/keys", "id_token_signing_alg_values_supported": []string{"EdDSA"},
		})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]any{
			"kty": "OKP", "crv": "Ed25519", "kid": "k", "use": "sig", "alg": "EdDSA",
			"x": base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey)),
		}}})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.nonces[query.Get("state")] = query.Get("nonce")
		back := url.Values{"code": {query.Get("state")}, "state": {query.Get("state")}}
		http.Redirect(w, r, query.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		_, secret, _ := r.BasicAuth()
		d.mu.Lock()
		d.secret = secret + r.FormValue("client_secret")
		d.mu.Unlock()
		token, err := d.idToken(r.FormValue("code"))
		if err != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"error":"invalid_grant"}`)
			return
		}
		answer(w, map[string]any{"access_token": "x", "token_type": "Bearer", "id_token": token, "refresh_token": "rt"})
	})
	return d
}

// idToken says who ann is, for a code, which is good for once, or for a refresh, which
// has none.
func (d *directory) idToken(code string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	more := map[string]any{
		"groups": []string{"staff"}, "email": "ann@corp.example", "roles": []string{"tools.read", "tools.write"},
	}
	if code != "" {
		nonce, ok := d.nonces[code]
		if !ok {
			return "", errors.New("the code was used")
		}
		delete(d.nonces, code)
		more["nonce"] = nonce
	}
	return d.sign(more)
}

// logoutToken says that ann has signed out.
func (d *directory) logoutToken(t *testing.T) string {
	t.Helper()
	token, err := d.sign(map[string]any{
		"jti": rand.Text(), "events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (d *directory) sign(more map[string]any) (string, error) {
	return auth.Sign(auth.Key{ID: "k", Public: d.key.Public(), Private: d.key}, "EdDSA", auth.Claims{
		Issuer: d.URL, Subject: "ann", Audience: "gateway", IssuedAt: time.Now(),
		Expiry: time.Now().Add(time.Minute), Extra: more,
	})
}

var (
	resourceMetadata = regexp.MustCompile(`resource_metadata="([^"]*)"`)
	consentField     = regexp.MustCompile(`name="(id|proof)" value="([^"]*)"`)
	toyVisitor       = regexp.MustCompile(`href="(http[^"]*/callback/toy\?[^"]*)">([^<]*)<`)
	movesTo          = regexp.MustCompile(`http-equiv="refresh" content="0; url=([^"]*)"`)
)

// browserClient is a client together with a person's browser, with the cookies of both.
type browserClient struct {
	t       *testing.T
	cookies map[string]string
	person  string            // whom the person chooses to be at a toy login
	through http.RoundTripper // nil: by the address
}

func newBrowserClient(t *testing.T) *browserClient {
	return &browserClient{t: t, cookies: map[string]string{}}
}

// ask sends a request and returns the answer and its text.
func (w *browserClient) ask(method, address, kind, body string, header ...string) (*http.Response, string) {
	w.t.Helper()
	answer, text, err := w.try(method, address, kind, body, header...)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer, text
}

// try is ask for a request that may be lost.
func (w *browserClient) try(method, address, kind, body string, header ...string) (*http.Response, string, error) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	for name, value := range w.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	client := &http.Client{
		Transport:     w.through,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, "", err
	}
	for _, cookie := range answer.Cookies() {
		w.cookies[cookie.Name] = cookie.Value
	}
	return answer, string(text), nil
}

// document returns the members of a JSON document.
func (w *browserClient) document(method, address, kind, body string) map[string]any {
	w.t.Helper()
	answer, text := w.ask(method, address, kind, body)
	var members map[string]any
	if err := json.Unmarshal([]byte(text), &members); err != nil || answer.StatusCode >= 300 {
		w.t.Fatalf("%s: status %d: %s", address, answer.StatusCode, text)
	}
	return members
}

const (
	jsonKind = "application/json"
	formKind = "application/x-www-form-urlencoded"
	aPing    = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"test","version":"1"}}}`
	aMessage = "application/json, text/event-stream"
)

const (
	clientsBack     = "http://127.0.0.1:1/cb"
	clientsVerifier = "verifierverifierverifierverifierverifierverifierverifierverifier"
)

// begin goes from a refused request to where the person's browser is to go, as a client
// does that knows nothing but the address.
func (w *browserClient) begin(mcp string) (address string, server map[string]any, id string) {
	w.t.Helper()
	answer, _ := w.ask("POST", mcp, jsonKind, aPing, "Accept", aMessage)
	found := resourceMetadata.FindStringSubmatch(answer.Header.Get("WWW-Authenticate"))
	if answer.StatusCode != http.StatusUnauthorized || found == nil {
		w.t.Fatalf("without a token: status %d, %v", answer.StatusCode, answer.Header)
	}
	resource := w.document("GET", found[1], "", "")
	issuer := resource["authorization_servers"].([]any)[0].(string)
	u, err := url.Parse(issuer)
	if err != nil {
		w.t.Fatal(err)
	}
	server = w.document("GET", u.Scheme+"://"+u.Host+"/.well-known/oauth-authorization-server"+u.Path, "", "")
	if server["issuer"] != issuer {
		w.t.Fatalf("the server of %q calls itself %q", issuer, server["issuer"])
	}
	client := w.document("POST", server["registration_endpoint"].(string), jsonKind,
		`{"redirect_uris":["`+clientsBack+`"]}`)
	id = client["client_id"].(string)
	sum := sha256.Sum256([]byte(clientsVerifier))
	return server["authorization_endpoint"].(string) + "?" + url.Values{
		"response_type": {"code"}, "client_id": {id}, "redirect_uri": {clientsBack}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
		"resource": {resource["resource"].(string)},
	}.Encode(), server, id
}

// signIn goes from a refused request to tokens, and returns them and where they came
// from.
func (w *browserClient) signIn(mcp string) (tokens map[string]any, server map[string]any, id string) {
	w.t.Helper()
	address, server, id := w.begin(mcp)
	return w.complete(address, server, id), server, id
}

// complete goes from where the person's browser is to go to tokens.
func (w *browserClient) complete(address string, server map[string]any, id string) (tokens map[string]any) {
	w.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		w.t.Fatal(err)
	}
	code := w.follow(address, u.Scheme+"://"+u.Host)
	return w.document("POST", server["token_endpoint"].(string), formKind, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "client_id": {id}, "redirect_uri": {clientsBack},
		"code_verifier": {clientsVerifier},
	}.Encode())
}

// browse lets the person go where the browser is led, and returns the page at its end.
func (w *browserClient) browse(address, origin string) string {
	w.t.Helper()
	for range 5 {
		answer, text := w.ask("GET", address, "", "")
		if to := answer.Header.Get("Location"); to != "" {
			if address = to; strings.HasPrefix(to, "/") {
				address = origin + to
			}
			continue
		}
		if address = w.visitor(text); address == "" {
			return text
		}
	}
	w.t.Fatal("no end of redirects")
	return ""
}

// follow lets the person go where the browser is led, and consent, and returns the code
// that the client gets.
func (w *browserClient) follow(address, origin string) string {
	w.t.Helper()
	form := url.Values{"decision": {"allow"}}
	for _, match := range consentField.FindAllStringSubmatch(w.browse(address, origin), -1) {
		form.Set(match[1], match[2])
	}
	_, text := w.ask("POST", origin+"/consent", formKind, form.Encode(), "Origin", "null")
	match := movesTo.FindStringSubmatch(text)
	if match == nil {
		w.t.Fatalf("no way back to the client: %s", text)
	}
	to, err := url.Parse(html.UnescapeString(match[1]))
	if err != nil {
		w.t.Fatal(err)
	}
	return to.Query().Get("code")
}

// visitor returns where the page of a toy login lets the person in, "" if it is another.
func (w *browserClient) visitor(page string) string {
	for _, match := range toyVisitor.FindAllStringSubmatch(page, -1) {
		if match[2] == w.person {
			return html.UnescapeString(match[1])
		}
	}
	return ""
}

// signInHead returns the beginning of a config by which people sign in at a provider. who
// has the keys that say which tenants and scopes they get.
func signInHead(listen, operator, provider, who string) string {
	return fmt.Sprintf(`listen: %s
operator: %s
public_url: http://%[1]s
audit: {file: audit.jsonl}
data: {dir: kept}
issuers:
  - issuer: %[3]s
    private_addresses: true
    algorithms: [EdDSA]
    %[4]s
    sign_in: {name: corp, client_id: gateway, client_secret_file: secret, scopes: [openid]}
  - {issuer: local, hmac_secret_file: secret, algorithms: [HS256], tenant: acme}
`, listen, operator, provider, who)
}

// TestPeopleSignInWithABrowser runs the program with a provider of OpenID Connect. A
// client that knows nothing but the address gets from 401 to an answer, at the address of
// all tenants and at that of one; the audit names the person as the provider does; a
// token of one tenant is refused at another's address; after a restart both of its
// tokens still serve, until the operator signs her out.
func TestPeopleSignInWithABrowser(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	r := startReplica(t, func(listen, operator string) string {
		return signInHead(listen, operator, d.URL, `tenants: {claim: groups, map: {staff: acme, partners: globex}}
    name_claim: email`) + fmt.Sprintf(`tenants:
  acme: {servers: [toolbox], rules: [{allow: ["*"], subjects: ["%[1]s#ann"]}]}
  globex: {servers: [toolbox], rules: [{allow: ["*"]}]}
servers:
  toolbox: {builtin: [calculate]}
`, d.URL)
	})
	origin := strings.TrimSuffix(r.url, "/mcp")
	var refresh, access, id string
	var server map[string]any
	for _, address := range []string{origin + "/mcp", origin + "/t/acme/mcp"} {
		w := newBrowserClient(t)
		var tokens map[string]any
		tokens, server, id = w.signIn(address)
		access, refresh = tokens["access_token"].(string), tokens["refresh_token"].(string)
		answer, text := w.ask("POST", address, jsonKind, aPing, "Accept", aMessage, "Authorization", "Bearer "+access)
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: status %d: %s", address, answer.StatusCode, text)
		}
		answer, _ = w.ask("POST", origin+"/t/globex/mcp", jsonKind, aPing, "Accept", aMessage,
			"Authorization", "Bearer "+access)
		if answer.StatusCode != http.StatusNotFound {
			t.Errorf("at another tenant: status %d, want 404", answer.StatusCode)
		}
	}
	r.stops(t)
	r.begin(t)
	w := newBrowserClient(t)
	answer, text := w.ask("POST", origin+"/t/acme/mcp", jsonKind, aPing, "Accept", aMessage,
		"Authorization", "Bearer "+access)
	if answer.StatusCode != http.StatusOK {
		t.Errorf("the access token after a restart: status %d: %s", answer.StatusCode, text)
	}
	again := w.document("POST", server["token_endpoint"].(string), formKind, url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "client_id": {id},
	}.Encode())
	if again["access_token"] == nil || again["refresh_token"] == refresh {
		t.Errorf("the refresh after a restart: %v", again)
	}
	explained := func() (int, string) {
		r.save(t, "token", again["access_token"].(string))
		return operate(t, "explain", "-config", r.path("drawbridge.yaml"), "-token-file", r.path("token"), "-tool", "toolbox__calculate",
			"-args", `{"expression":"1"}`)
	}
	code, walk := explained()
	if code != exitOK || !strings.Contains(walk, "this gateway gave it out, its signature is good\n") ||
		!strings.Contains(walk, d.URL+"#ann") {
		t.Errorf("explain of her token: code %d: %s", code, walk)
	}
	// The operator ends what ann has, beside the running gateway.
	said, err := exec.CommandContext(t.Context(), "drawbridge", "sign-out", d.URL+"#ann", "-config",
		filepath.Join(r.directory, "drawbridge.yaml")).CombinedOutput()
	if err != nil || !strings.Contains(string(said), "2 sign-ins ended") {
		t.Errorf("sign-out: %v: %s", err, said)
	}
	eventually(t, "the access token is refused", func() bool {
		answer, _ := w.ask("POST", origin+"/t/acme/mcp", jsonKind, aPing, "Accept", aMessage,
			"Authorization", "Bearer "+again["access_token"].(string))
		return answer.StatusCode == http.StatusUnauthorized
	})
	answer, text = w.ask("POST", server["token_endpoint"].(string), formKind, url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {again["refresh_token"].(string)}, "client_id": {id},
	}.Encode())
	if answer.StatusCode != http.StatusBadRequest || !strings.Contains(text, "invalid_grant") {
		t.Errorf("a refresh after the sign-out: status %d: %s", answer.StatusCode, text)
	}
	for _, want := range []string{
		`"tenant":"acme","issuer":"` + d.URL + `","subject":"ann","name":"ann@corp.example",`,
		`"method":"oauth/consent","outcome":"ok","reason":"consented"`,
		`"method":"oauth/token","outcome":"ok","reason":"signed_in"`,
		`"outcome":"ended","reason":"signed_out"`,
		`"method":"oauth/token","outcome":"invalid_request","reason":"invalid_grant"`,
	} {
		// An end is on record after it holds.
		eventually(t, "the audit has "+want, func() bool {
			record, err := os.ReadFile(filepath.Join(r.directory, "audit.jsonl"))
			return err == nil && strings.Contains(string(record), want)
		})
	}
	if code, said := operate(t, "usage", "-by", "outcome", "-audit", filepath.Join(r.directory, "audit.jsonl")); code != exitOK ||
		strings.Contains(said, "ended") {
		t.Errorf("usage: code %d: %s", code, said)
	}
	if code, walk = explained(); code != exitFailure || !strings.HasPrefix(walk, "refused: unauthenticated, expired") {
		t.Errorf("explain after the sign-out: code %d: %s", code, walk)
	}
	code, misspelt := operate(t, "sign-out", d.URL+"/#ann", "-config", filepath.Join(r.directory, "drawbridge.yaml"))
	if code != exitOK || !strings.HasPrefix(misspelt, "0 sign-ins ended\n") ||
		!strings.Contains(misspelt, "(did you mean "+d.URL+"?)") {
		t.Errorf("sign-out at a misspelt issuer: code %d: %s", code, misspelt)
	}
	for _, wrong := range []string{"ann", "#ann", d.URL + "#", ""} {
		code, said := operate(t, "sign-out", wrong, "-config", filepath.Join(r.directory, "drawbridge.yaml"))
		if code != exitRefused || !strings.Contains(said, "ISSUER#SUBJECT") {
			t.Errorf("sign-out %q: code %d: %s", wrong, code, said)
		}
	}
}

// challengeScope is the scope that a 403 asks for.
var challengeScope = regexp.MustCompile(`error="insufficient_scope".* scope="([^"]*)"`)

// TestClientStepsUp asks for one scope at first. The call of a tool that needs another is
// a 403 that names it; the same client signs the person in with both, and calls again.
func TestClientStepsUp(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	r := startReplica(t, func(listen, operator string) string {
		return signInHead(listen, operator, d.URL, `tenants: {claim: groups, map: {staff: acme}}
    scopes: {claims: [roles]}`) + `tenants:
  acme:
    servers: [toolbox]
    rules:
      - {allow: ["toolbox__current_time"], scopes: [tools.read]}
      - {allow: ["toolbox__calculate"], scopes: [tools.write], announce: true}
servers:
  toolbox: {builtin: [calculate, current_time]}
`
	})
	w := newBrowserClient(t)
	call := func(token, tool, arguments string) (*http.Response, string) {
		return w.ask("POST", r.url, jsonKind, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+
			`","arguments":`+arguments+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},`+
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`, "Accept", aMessage, "Authorization", "Bearer "+token,
			mcp.HeaderProtocolVersion, "2026-07-28", mcp.HeaderMethod, "tools/call", mcp.HeaderName, tool)
	}
	address, server, id := w.begin(r.url)
	first := w.complete(address+"&scope=tools.read", server, id)
	if first["scope"] != "tools.read" {
		t.Fatalf("asked for tools.read, got the tokens %v", first)
	}
	if answer, text := call(first["access_token"].(string), "toolbox__current_time", `{}`); answer.StatusCode != http.StatusOK {
		t.Fatalf("what the first scope allows: status %d: %s", answer.StatusCode, text)
	}
	answer, text := call(first["access_token"].(string), "toolbox__calculate", `{"expression":"6*7"}`)
	found := challengeScope.FindStringSubmatch(answer.Header.Get("WWW-Authenticate"))
	if answer.StatusCode != http.StatusForbidden || found == nil {
		t.Fatalf("the other scope is missing: status %d, %v: %s", answer.StatusCode, answer.Header, text)
	}
	if asked := strings.Fields(found[1]); !slices.Contains(asked, "tools.write") {
		t.Fatalf("the 403 asks for %q, want tools.write among them", asked)
	}
	second := w.complete(address+"&"+url.Values{"scope": {"tools.read " + found[1]}}.Encode(), server, id)
	for tool, arguments := range map[string]string{
		"toolbox__calculate": `{"expression":"6*7"}`, "toolbox__current_time": `{}`,
	} {
		answer, text = call(second["access_token"].(string), tool, arguments)
		if answer.StatusCode != http.StatusOK || strings.Contains(text, `"isError":true`) {
			t.Errorf("%s after the second sign-in: status %d: %s", tool, answer.StatusCode, text)
		}
	}
}

// TestReadyzNamesProvidersThatAreAway shows that /readyz says which provider cannot be
// reached, and that the gateway is ready all the same.
func TestReadyzNamesProvidersThatAreAway(t *testing.T) {
	t.Parallel()
	r := startReplica(t, func(listen, operator string) string {
		return fmt.Sprintf(`listen: %s
operator: %s
public_url: http://%[1]s
audit: {file: audit.jsonl}
data: {dir: kept}
issuers:
  - issuer: http://127.0.0.1:1
    private_addresses: true
    algorithms: [EdDSA]
    tenant: acme
    sign_in: {name: corp, client_id: gateway, client_secret_file: secret}
  - {issuer: local, hmac_secret_file: secret, algorithms: [HS256], tenant: acme}
tenants:
  acme: {servers: [toolbox], rules: [{allow: ["*"]}]}
servers:
  toolbox: {builtin: [calculate]}
`, listen, operator)
	})
	w := &browserClient{t: t, cookies: map[string]string{}}
	eventually(t, "the provider is named", func() bool {
		answer, text := w.ask("GET", "http://"+r.operator+"/readyz", "", "")
		return answer.StatusCode == http.StatusOK && strings.Contains(text, `"unreached_providers":{"corp":{"failing":"`) &&
			strings.Contains(text, "the provider corp cannot be reached: ")
	})
	_, text := w.ask("GET", "http://"+r.operator+"/metrics", "", "")
	if want := `drawbridge_sign_in_provider_up{provider="corp"} 0`; !strings.Contains(text, want) {
		t.Errorf("the metrics have no %s", want)
	}
}
