package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server"
)

// Each of these fails when its stage is taken out of the list in Handler.

// logging lets a test read the log.
func logging(out *bytes.Buffer) func(*world) {
	return func(w *world) {
		w.config.Logger = slog.New(slog.NewJSONHandler(out, nil))
	}
}

func TestStageIdentified(t *testing.T) {
	var out bytes.Buffer
	w := newWorld(t, logging(&out))
	w.do(t, modernCall("echo"))
	w.do(t, modernCall("echo"))
	seen := make(map[string]bool)
	for line := range strings.Lines(out.String()) {
		id := object(line).Text("request_id")
		if id == "" || seen[id] {
			t.Errorf("got request id %q, want one of its own: %s", id, line)
		}
		seen[id] = true
	}
	if len(seen) != 2 {
		t.Errorf("got %d lines, want 2", len(seen))
	}
}

func TestStageLogged(t *testing.T) {
	var out bytes.Buffer
	w := newWorld(t, logging(&out))
	w.do(t, modernCall("fails"))
	line := object(out.String())
	for name, want := range map[string]string{
		"msg": "request", "tenant": "acme", "method": "tools/call", "tool": "fails", "outcome": "tool_error",
		"remote": "192.0.2.1",
	} {
		if got := line.Text(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := string(line.Value("status")); got != "200" {
		t.Errorf("status: got %s, want 200", got)
	}
}

// TestLogSaysThatAToolFailedInEachWayToCallIt calls a tool whose result has isError: as a
// modern client, also under a key, and in a session, with answers of both forms.
func TestLogSaysThatAToolFailedInEachWayToCallIt(t *testing.T) {
	var out bytes.Buffer
	w := newWorld(t, logging(&out))
	modern, legacy := modernCall("fails"), legacyCall(w.open(t, "alice", mcp.Revision2511), "fails")
	const streams = "text/event-stream, application/json"
	for name, call := range map[string]message{
		"modern":              modern,
		"modern, as a stream": modern.with("Accept", streams),
		"under a key":         modern.with("Idempotency-Key", "a"),
		"session":             legacy,
		"session, as stream":  legacy.with("Accept", streams),
	} {
		out.Reset()
		w.do(t, call)
		if got := object(out.String()).Text("outcome"); got != "tool_error" {
			t.Errorf("%s: got the outcome %q, want tool_error", name, got)
		}
	}
}

func TestStageRecovered(t *testing.T) {
	var out bytes.Buffer
	w := newWorld(t, logging(&out))
	w.behind(&fakeDesk{admit: func() { panic("a bug") }})
	got := w.do(t, modernCall("echo"))
	if got.Code != http.StatusInternalServerError || stable(t, got.Body) != "DB-INTERNAL" {
		t.Errorf("got %d %s, want 500 DB-INTERNAL", got.Code, got.Body)
	}
	if !strings.Contains(out.String(), "a bug") || strings.Contains(got.Body.String(), "a bug") {
		t.Errorf("the panic belongs into the log only; log: %s body: %s", &out, got.Body)
	}
}

// TestPanicInCall shows that a panic behind the desk becomes an answer, whoever runs the
// call.
func TestPanicInCall(t *testing.T) {
	w := newWorld(t)
	w.behind(&fakeDesk{handle: func(context.Context, gateway.Caller, *gateway.Request) (mcp.Object,
		error,
	) {
		panic("a bug")
	}})
	got := w.do(t, modernCall("echo"))
	if want := `"code":-32603`; got.Code != http.StatusOK || !strings.Contains(got.Body.String(), want) {
		t.Errorf("modern: got %d %s, want 200 with %s", got.Code, got.Body, want)
	}
	id := w.open(t, "alice", mcp.Revision2503)
	got = w.do(t, inSession("POST", id, `[{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`))
	if want := `"code":-32603`; got.Code != http.StatusOK || !strings.Contains(got.Body.String(), want) {
		t.Errorf("batch: got %d %s, want 200 with %s", got.Code, got.Body, want)
	}
}

func TestStageSameOrigin(t *testing.T) {
	w := newWorld(t)
	if got := w.do(t, modernCall("echo").with("Origin",
		"https://evil.test")); got.Code != http.StatusForbidden {
		t.Errorf("foreign origin: got %d, want 403", got.Code)
	}
	if got := w.do(t, modernCall("echo").with("Host", "evil.test")); got.Code != http.StatusForbidden {
		t.Errorf("foreign host: got %d, want 403", got.Code)
	}
}

func TestStageBounded(t *testing.T) {
	w := newWorld(t, func(w *world) { w.config.MaxBody = 300 })
	big := modernCall("echo")
	big.body += strings.Repeat(" ", 300)
	if got := w.do(t, big); got.Code != http.StatusRequestEntityTooLarge ||
		stable(t, got.Body) != "DB-BODY-SIZE" ||
		!strings.Contains(got.Body.String(), "limits.max_body, 300 bytes") {
		t.Errorf("got %d %s, want 413 with the limit", got.Code, got.Body)
	}
}

func TestStageAuthenticated(t *testing.T) {
	w := newWorld(t)
	var refused []audit.Record
	w.behind(&fakeDesk{refuse: func(r audit.Record) { refused = append(refused, r) }})
	const metadata = `resource_metadata="https://mcp.test/.well-known/oauth-protected-resource/mcp"`
	tests := []struct{ name, token, code, challenge, reason string }{
		{"missing", "", "DB-AUTH-MISSING", `Bearer ` + metadata, "missing"},
		{
			"wrong", "forged", "DB-AUTH-TOKEN",
			`Bearer error="invalid_token", error_description="The token is not understood: it is damaged, or of an issuer or key that is not known here", ` + metadata,
			"signature",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			refused = nil
			got := w.do(t, modernCall("echo").as(test.token))
			if got.Code != http.StatusUnauthorized || stable(t, got.Body) != test.code {
				t.Errorf("got %d %s, want 401 %s", got.Code, got.Body, test.code)
			}
			if challenge := got.Header().Get("WWW-Authenticate"); challenge != test.challenge {
				t.Errorf("got challenge %q, want %q", challenge, test.challenge)
			}
			if len(refused) != 1 || refused[0].Reason != test.reason || refused[0].Remote != "192.0.2.1" ||
				refused[0].Outcome != "unauthenticated" {
				t.Errorf("on record: got %+v, want one refusal for %s", refused, test.reason)
			}
		})
	}
	got := w.do(t, modernCall("echo").as("keyless"))
	if got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
		t.Errorf("keys not to be had: got %d, want 503 with Retry-After", got.Code)
	}
}

// TestStageAdmitted stands in a bubble, where no time passes in which a limit would
// recover.
func TestStageAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if got := w.do(t, modernCall("echo").as("stranger")); got.Code != http.StatusForbidden ||
			stable(t, got.Body) != "DB-TENANT" {
			t.Errorf("tenant not served: got %d %s, want 403", got.Code, got.Body)
		}
		if got := w.do(t, modernCall("echo").as("poor")); got.Code != http.StatusTooManyRequests {
			t.Errorf("no calls at all: got %d %s, want 429", got.Code, got.Body)
		}
		limited := false
		for range 1000 {
			got := w.do(t, message{method: "GET", path: "/mcp", token: "usual"})
			if limited = got.Code == http.StatusTooManyRequests; limited {
				if got.Header().Get("Retry-After") != "1" || stable(t, got.Body) != "DB-LIMIT-USER" {
					t.Errorf("got Retry-After %q and %s, want 1 and DB-LIMIT-USER",
						got.Header().Get("Retry-After"), got.Body)
				}
				break
			}
		}
		if !limited {
			t.Error("1000 requests at once were all admitted")
		}
	})
}

func TestTenantInPathChoosesNothing(t *testing.T) {
	w := newWorld(t)
	own, other := modernCall("echo"), modernCall("echo")
	own.path, other.path = "/t/acme/mcp", "/t/globex/mcp"
	if got := w.do(t, own); got.Code != http.StatusOK {
		t.Errorf("own tenant: got %d %s, want 200", got.Code, got.Body)
	}
	if got := w.do(t, other); got.Code != http.StatusNotFound {
		t.Errorf("another tenant: got %d %s, want 404", got.Code, got.Body)
	}
}

// TestTrap29_MetadataNamesTheURL shows that the resource is the URL that the client uses,
// also that of a tenant. Whether there is such a tenant, the answer does not say.
func TestTrap29_MetadataNamesTheURL(t *testing.T) {
	w := newWorld(t, func(w *world) { w.settings.PublicURL = "https://mcp.test/" })
	const known = "/.well-known/oauth-protected-resource"
	for path, resource := range map[string]string{
		known:                    "https://mcp.test/mcp",
		known + "/mcp":           "https://mcp.test/mcp",
		known + "/t/acme/mcp":    "https://mcp.test/t/acme/mcp",
		known + "/t/nobody/mcp":  "https://mcp.test/t/nobody/mcp",
		known + "/t/a.B-c_1/mcp": "https://mcp.test/t/a.B-c_1/mcp",
	} {
		want := `{"resource":"` + resource +
			`","authorization_servers":["https://issuer.test","https://issuer2.test"],"bearer_methods_supported":["header"]}`
		if got := w.do(t, message{method: "GET", path: path}); got.Code != http.StatusOK ||
			got.Body.String() != want {
			t.Errorf("%s: got %d %s, want %s", path, got.Code, got.Body, want)
		}
	}
	for _, path := range []string{
		"/t/a%22b/mcp", "/t/.a/mcp", "/t/a%2fb/mcp", "/t//mcp",
		"/t/" + strings.Repeat("a", 65) + "/mcp",
	} {
		if got := w.do(t, message{method: "GET", path: known + path}); got.Code != http.StatusNotFound {
			t.Errorf("%s: got %d %s, want 404", path, got.Code, got.Body)
		}
	}
	for path, metadata := range map[string]string{
		"/mcp": known + "/mcp", "/sse": known + "/mcp", "/t/acme/mcp": known + "/t/acme/mcp",
		"/t/nobody/mcp": known + "/t/nobody/mcp",
	} {
		want := `Bearer resource_metadata="https://mcp.test` + metadata + `"`
		if got := w.do(t, message{method: "GET", path: path}); got.Code != http.StatusUnauthorized ||
			got.Header().Get("WWW-Authenticate") != want {
			t.Errorf("%s: got %d %v, want 401 with %s", path, got.Code, got.Header(), want)
		}
	}
}

func TestLegacySSECanBeOff(t *testing.T) {
	w := newWorld(t, func(w *world) { w.config.LegacySSE = false })
	for _, m := range []message{
		{method: "GET", path: "/sse", token: "alice"},
		{method: "POST", path: "/messages", token: "alice", body: pingBody},
	} {
		if got := w.do(t, m); got.Code != http.StatusNotFound {
			t.Errorf("%s %s: got %d, want 404", m.method, m.path, got.Code)
		}
	}
}

var _ server.Desk = (*fakeDesk)(nil)
