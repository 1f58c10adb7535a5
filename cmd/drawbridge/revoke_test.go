package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// revocable is the config of a gateway with three tenants, each with an issuer of its
// own: acme's tells the tenant by a claim, keyed's serves its keys, and globex's stays as
// it is.
const revocable = `listen: %s
operator: %s
issuers:
  - {issuer: "https://hmac.example/", hmac_secret_file: secret, algorithms: [HS256], audiences: [us], tenants: {claim: org}, tenants_allowed: [acme, spare]}
  - {issuer: "https://login.example/", jwks_url: "%s", private_addresses: true, algorithms: [EdDSA], audiences: [us], tenant: keyed}
  - {issuer: "https://other.example/", hmac_secret_file: other, algorithms: [HS256], audiences: [us], tenant: globex}
tenants:
  acme: {servers: [toolbox], rules: [{allow: ["*"]}]}
  spare: {servers: [toolbox], rules: [{allow: ["*"]}]}
  keyed: {servers: [toolbox], rules: [{allow: ["*"]}]}
  globex: {servers: [toolbox], rules: [{allow: ["*"]}]}
servers:
  toolbox: {builtin: [calculate]}
`

// TestAStreamEndsWithWhatOpenedIt runs the program, and takes away what a token was
// accepted by in every way that the config and a provider of keys allow. The streams of
// its bearer end in every era, it cannot come in again, and another tenant's streams stay
// open.
func TestAStreamEndsWithWhatOpenedIt(t *testing.T) {
	for name, test := range map[string]struct {
		tenant string
		change func(*testing.T, *recorder, *login)
	}{
		"the secret is replaced": {"acme", func(t *testing.T, r *recorder, _ *login) {
			r.save(t, "secret", "0a1b2c3d4e5f60718293a4b5c6d7e8f9f3b1c0a9")
		}},
		"its issuer is removed": {"acme", func(t *testing.T, r *recorder, _ *login) {
			lines := strings.SplitAfter(r.config(t), "\n")
			r.save(t, "drawbridge.yaml", strings.Join(append(lines[:3:3], lines[4:]...), ""))
		}},
		"its tenant leaves tenants_allowed": {"acme", func(t *testing.T, r *recorder, _ *login) {
			r.save(t, "drawbridge.yaml", strings.Replace(r.config(t), "[acme, spare]", "[spare]", 1))
		}},
		"its tenant is renamed": {"acme", func(t *testing.T, r *recorder, _ *login) {
			r.save(t, "drawbridge.yaml", strings.NewReplacer("  acme: {", "  umbrella: {", "[acme, spare]",
				"[umbrella, spare]").Replace(r.config(t)))
		}},
		"its key is removed at the provider": {"keyed", func(t *testing.T, r *recorder, l *login) {
			l.rotate()
			if err := r.process.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLogin(t)
			r := startRevocable(t, l)
			tokens := map[string]string{
				"acme": r.signFor(t, "acme"), "globex": r.signFor(t, "globex"),
				"keyed": l.token(t),
			}
			hers, others := r.streams(t, tokens[test.tenant]), r.streams(t, tokens["globex"])
			test.change(t, r, l)
			for kind, ended := range hers {
				eventually(t, kind+" ends", func() bool { return isClosed(ended) })
			}
			for kind, ended := range others {
				if isClosed(ended) {
					t.Errorf("%s of another tenant has ended", kind)
				}
			}
			r.token = tokens[test.tenant]
			// A stream ends when the tenants change, which is a moment before the issuers
			// do: until then the token is good, and its tenant is not served.
			eventually(t, "the token is refused", func() bool {
				got := r.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
				if got.status != http.StatusUnauthorized && got.status != http.StatusForbidden {
					t.Errorf("the next request: %v, want 401", got)
				}
				return got.status == http.StatusUnauthorized
			})
		})
	}
}

func startRevocable(t *testing.T, l *login) *recorder {
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
	r.save(t, "secret", "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99")
	r.save(t, "other", "c3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a98")
	r.save(t, "drawbridge.yaml", fmt.Sprintf(revocable, ports[0], ports[1], l.server.URL))
	r.url, r.operator = "http://"+ports[0]+"/mcp", ports[1]
	r.start(t, func(r *recorder) { r.process.Dir = r.directory })
	r.ready(t, http.StatusOK, "")
	return r
}

func (r *recorder) save(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(r.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *recorder) config(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(r.path("drawbridge.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// signFor returns a token for a tenant.
func (r *recorder) signFor(t *testing.T, tenant string) string {
	t.Helper()
	cfg, err := config.Load(r.path("drawbridge.yaml"), testEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	token, _, err := signToken(cfg, tokenRequest{tenant: tenant, subject: "alice", ttl: time.Hour},
		time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// streams opens a stream of each kind, and returns for each what is closed at its end.
func (r *recorder) streams(t *testing.T, token string) map[string]<-chan struct{} {
	t.Helper()
	r.token = token
	opened := r.post(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	if opened.status != http.StatusOK {
		t.Fatalf("initialize: %v", opened)
	}
	const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	return map[string]<-chan struct{}{
		"get": r.stream(t, http.MethodGet, r.url, "", mcp.HeaderSessionID, opened.body),
		"sse": r.stream(t, http.MethodGet, strings.TrimSuffix(r.url, "/mcp")+"/sse", ""),
		"listen": r.stream(t, http.MethodPost, r.url, listen, mcp.HeaderProtocolVersion, "2026-07-28",
			mcp.HeaderMethod, "subscriptions/listen"),
	}
}

// stream opens an event stream and reads it away. What it returns is closed at its end.
func (r *recorder) stream(t *testing.T, method, url, body string, headers ...string) <-chan struct{} {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	request, err := r.request(ctx, method, url, body, headers)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s", method, url, response.Status)
	}
	ended := make(chan struct{})
	go func() { // ends with the stream, or with the test
		defer close(ended)
		defer response.Body.Close()
		io.Copy(io.Discard, response.Body)
	}()
	return ended
}

func isClosed(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}
