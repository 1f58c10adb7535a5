package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// chromiumBrowser is a real browser, and who sits before it.
type chromiumBrowser struct{ url string }

// newChromiumBrowser starts Chromium.
func newChromiumBrowser(t testing.TB) *chromiumBrowser {
	t.Helper()
	browser := chromium(t)
	port := strconv.Itoa(freePort(t))
	p := nodeProcess(t, nil, "clients/browser.mjs", port, browser)
	eventually(t, "the browser is there", func() bool { return strings.Contains(p.out.String(), "listening") })
	return &chromiumBrowser{"http://127.0.0.1:" + port}
}

// pageVisit is what a person saw who went to an address.
type pageVisit struct {
	At     string
	Pages  []struct{ At, Title, Text string }
	Errors []string // of the console, each behind the address that it speaks of
	Failed string   // why it did not come to an end; "": it did
}

// open has the person go to an address and sign in. Where the gateway asks, she chooses
// the tenant.
func (s *chromiumBrowser) open(t testing.TB, address, tenant string) {
	t.Helper()
	s.ask(t, http.MethodPost, "/open?tenant="+tenant, address, &pageVisit{})
}

// ask asks the program with the browser.
func (s *chromiumBrowser) ask(t testing.TB, method, path, body string, told any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(told); err != nil {
		t.Fatal(err)
	}
}

// isSilent checks that all ways through the browser came to an end, and that the console
// had nothing to say of pages of this gateway.
func (s *chromiumBrowser) isSilent(t testing.TB, gateway string) {
	t.Helper()
	var all []pageVisit
	s.ask(t, http.MethodGet, "/seen", "", &all)
	for _, one := range all {
		if len(one.Pages) == 0 || !strings.HasPrefix(one.At, gateway) {
			continue // another's
		}
		if one.Failed != "" {
			t.Errorf("the browser stopped: %s\n%+v", one.Failed, one.Pages)
		}
		for _, said := range one.Errors {
			if strings.HasPrefix(said, gateway) {
				t.Errorf("the console says %s", said)
			}
		}
	}
}

// opener writes a program that opens addresses in this browser, as programs start one,
// and returns its folder.
func (s *chromiumBrowser) opener(t testing.TB, tenant string) string {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\ncurl -sS --noproxy '*' -X POST --data-binary \"$1\" '%s/open?tenant=%s' "+
		">/dev/null 2>&1 </dev/null &\n", s.url, tenant)
	for _, name := range []string{"xdg-open", "open"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// company is the company's provider: npm's oidc-provider, for gateways at these public
// URLs.
func company(t testing.TB, gateways ...string) (issuer string) {
	t.Helper()
	callbacks := make([]string, len(gateways))
	for i, public := range gateways {
		callbacks[i] = public + "/callback/corp"
	}
	return oidcProvider(t, map[string]any{
		"client": map[string]any{"redirect_uris": callbacks},
		"scopes": []string{"openid", "offline_access", "email", "groups"},
		"people": map[string]any{"alice": map[string]any{
			"email": "alice@example.com", "email_verified": true, "groups": []string{"payments", "search", "operators"},
		}},
		"rotateRefreshToken": true,
	})
}

// recordingProxy stands before a gateway, where clients think that it is, and sees what
// they send. It can let their access tokens be short-lived, which those of the gateway
// are not.
type recordingProxy struct {
	*httptest.Server

	mu       sync.Mutex // guards the fields below
	gateway  *url.URL
	requests []sent
	given    []string // access tokens
	expired  int      // how many of them
	life     int      // what expires_in of those to come says; 0: what the gateway says
}

// sent is a request that a client sent, and how it was answered.
type sent struct {
	method, path string
	form         url.Values // of the query, or of the body at the token endpoint
	body         string     // of a registration
	status       int
}

func newRecordingProxy(t testing.TB) *recordingProxy {
	t.Helper()
	f := &recordingProxy{}
	f.Server = httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval:  -1,
		Rewrite:        f.rewrite,
		ModifyResponse: f.answered,
	})
	t.Cleanup(f.Close)
	return f
}

type sentKey struct{}

func (f *recordingProxy) rewrite(r *httputil.ProxyRequest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.SetURL(f.gateway)
	r.Out.Host = r.In.Host
	token, _ := strings.CutPrefix(r.In.Header.Get("Authorization"), "Bearer ")
	if slices.Contains(f.given[:f.expired], token) {
		// What the gateway says of it, it says of one that expired.
		r.Out.Header.Set("Authorization", "Bearer expired")
	}
	one := sent{method: r.In.Method, path: r.In.URL.Path, form: r.In.URL.Query()}
	if r.In.Method == http.MethodPost && (strings.HasSuffix(one.path, "/token") ||
		strings.HasSuffix(one.path, "/register")) {
		body, _ := io.ReadAll(r.In.Body) // half of it is refused by the gateway
		r.Out.Body = io.NopCloser(bytes.NewReader(body))
		if strings.HasSuffix(one.path, "/token") {
			one.form, _ = url.ParseQuery(string(body)) // the same
		} else {
			one.body = string(body)
		}
	}
	f.requests = append(f.requests, one)
	*r.Out = *r.Out.WithContext(context.WithValue(r.Out.Context(), sentKey{}, len(f.requests)-1))
}

func (f *recordingProxy) answered(response *http.Response) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := &f.requests[response.Request.Context().Value(sentKey{}).(int)]
	one.status = response.StatusCode
	if !strings.HasSuffix(one.path, "/token") || one.status != http.StatusOK {
		return nil
	}
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	f.given = append(f.given, answer["access_token"].(string))
	if f.life > 0 {
		answer["expires_in"] = f.life
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(text))
	response.ContentLength = int64(len(text))
	response.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

// expire ends the life of all access tokens that were given so far.
func (f *recordingProxy) expire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expired = len(f.given)
}

// heard returns the requests to a path behind the address of a tenant or of all, that
// were answered with that status.
func (f *recordingProxy) heard(path string, status int) []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []sent
	for _, one := range f.requests {
		if strings.HasSuffix(one.path, path) && one.status == status {
			found = append(found, one)
		}
	}
	return found
}

// refreshes counts the refreshes that were answered with tokens.
func (f *recordingProxy) refreshes() int {
	return len(slices.DeleteFunc(f.heard("/token", http.StatusOK),
		func(one sent) bool { return one.form.Get("grant_type") != "refresh_token" }))
}

// consents counts the forms with a consent that were answered.
func (f *recordingProxy) consents() int {
	return len(slices.DeleteFunc(f.heard("/consent", http.StatusOK),
		func(one sent) bool { return one.method != http.MethodPost }))
}

// signInWorld is a gateway that signs people in, the company's provider, and a person
// with a browser.
type signInWorld struct {
	*gateway
	*recordingProxy
	issuer string
	surf   *chromiumBrowser
}

// public is the address that clients type, without /mcp.
func (w *signInWorld) public() string { return w.URL }

// newSignInWorld starts a gateway behind its front.
func newSignInWorld(t testing.TB, issuer string, f *recordingProxy, s *chromiumBrowser) *signInWorld {
	t.Helper()
	w := &signInWorld{gateway: settle(t), recordingProxy: f, issuer: issuer, surf: s}
	f.gateway = &url.URL{Scheme: "http", Host: w.addr}
	if err := os.WriteFile(filepath.Join(w.dir, "corp.secret"), []byte("a-client-secret-of-some-length\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.write(t, fmt.Sprintf(`listen: %s
operator: %s
public_url: %s
allowed_hosts: [127.0.0.1, localhost]
audit: {file: audit.jsonl}
data: {dir: data}
registration: dynamic
scopes_supported: [read]
issuers:
  - issuer: %s
    private_addresses: true
    algorithms: [RS256]
    tenants: {claim: groups, map: {payments: acme, search: globex}}
    scopes: {claims: [groups], map: {operators: admin, payments: read}}
    name_claim: email
    sign_in: {name: corp, client_id: drawbridge, client_secret_file: corp.secret, scopes: [openid, email, groups, offline_access]}
tenants:
  acme:
    servers: [toolbox]
    rules:
      - {allow: ["toolbox__calculate"], scopes: [read]}
      - {allow: ["toolbox__current_time"], scopes: [admin], announce: true}
    limits: %[5]s
  globex: {servers: [clock], rules: [{allow: ["*"]}], limits: %[5]s}
servers:
  toolbox: {builtin: [calculate, current_time]}
  clock: {builtin: [current_time]}
`, w.addr, strings.TrimPrefix(w.operator, "http://"), f.URL, issuer, generous))
	w.run(t)
	return w
}

// signOut ends what alice has, as the operator does.
func (w *signInWorld) signOut(t testing.TB) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), drawbridge(t), "sign-out", w.issuer+"#alice", "-config",
		w.config()).CombinedOutput()
	if err != nil {
		t.Fatalf("drawbridge sign-out: %v\n%s", err, out)
	}
	w.mu.Lock()
	last := w.given[len(w.given)-1]
	w.mu.Unlock()
	eventually(t, "the gateway refuses what it gave", func() bool {
		return post(t, w.gateway.url, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization", "Bearer "+last).status ==
			http.StatusUnauthorized
	})
}

// isExpired tells whether an access token is one of those.
func (f *recordingProxy) isExpired(token string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.given[:f.expired], token)
}
