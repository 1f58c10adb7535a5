package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// TestT2SessionBoundToPrincipal uses every session with every principal but its owner, in
// every way an id can be used: the answer is that to an id nobody ever made, byte for
// byte but for the id of the request.
func TestT2SessionBoundToPrincipal(t *testing.T) {
	w := newWorld(t)
	base := w.serve(t)
	owners := []string{"alice", "bob", "alice-other", "alice-issuer", "alice-globex", "alice-shift"}
	sessions, streams := make(map[string]string), make(map[string]string)
	for _, owner := range owners {
		sessions[owner] = w.open(t, owner, mcp.Revision2503)
		stream := call(t.Context(), t, base, message{
			method: "GET", path: "/sse", token: owner,
			headers: map[string]string{"Host": "mcp.test"},
		})
		stream.expect(t, "event: endpoint")
		streams[owner] = strings.TrimPrefix(stream.line(t), "data: /messages?sessionId=")
	}
	uses := []func(session, stream string) message{
		func(session, _ string) message { return inSession("POST", session, pingBody) },
		func(session, _ string) message { return legacyCall(session, "echo") },
		func(session, _ string) message { return inSession("POST", session, "["+pingBody+"]") },
		func(session, _ string) message {
			return inSession("POST", session,
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		},
		func(session, _ string) message { return inSession("GET", session, "") },
		func(session, _ string) message {
			return inSession("GET", session, "").with("Last-Event-ID",
				"p1-0")
		},
		func(session, _ string) message { return inSession("DELETE", session, "") },
		func(_, stream string) message {
			return message{method: "POST", path: "/messages?sessionId=" + stream, body: pingBody}
		},
		func(_, stream string) message { return inSession("POST", stream, pingBody) },
		func(session, _ string) message {
			return message{method: "POST", path: "/messages?sessionId=" + session, body: pingBody}
		},
	}
	tried := 0
	for _, owner := range owners {
		for _, user := range owners {
			if user == owner {
				continue
			}
			for i, use := range uses {
				got, want := w.do(t, use(sessions[owner], streams[owner]).as(user)),
					w.do(t, use("unknown", "unknown").as(user))
				if tried++; got.Code != http.StatusNotFound || nameless(t, got) != nameless(t, want) {
					t.Errorf("%s uses the session of %s in way %d: got %d %s %v, want %s %v", user, owner, i,
						got.Code, got.Body, got.Header(), want.Body, want.Header())
				}
			}
		}
	}
	for _, owner := range owners {
		if got := w.do(t, inSession("POST", sessions[owner], pingBody).as(owner)); got.Code != http.StatusOK {
			t.Errorf("%s lost its session: got %d %s", owner, got.Code, got.Body)
		}
	}
	if got := w.do(t, inSession("POST", sessions["alice"],
		pingBody).as("alice-again")); got.Code != http.StatusOK {
		t.Errorf("a newer token of the same principal: got %d %s, want 200", got.Code, got.Body)
	}
	t.Logf("%d attempts", tried)
}

// TestT2OtherInstance shows that a session is of no use on an instance that did not open
// it, though that has the keys.
func TestT2OtherInstance(t *testing.T) {
	one := newWorld(t)
	other := newWorld(t, func(w *world) { w.config.Seal = one.config.Seal })
	id := one.open(t, "alice", mcp.Revision2511)
	got, want := other.do(t, inSession("POST", id, pingBody)), other.do(t,
		inSession("POST", "unknown", pingBody))
	if got.Code != http.StatusNotFound || nameless(t, got) != nameless(t, want) {
		t.Errorf("got %d %s, want %s", got.Code, got.Body, want.Body)
	}
}

// TestT2ForeignEvent resumes a stream of another session of the same principal.
func TestT2ForeignEvent(t *testing.T) {
	w := newWorld(t)
	one, other := w.open(t, "alice", mcp.Revision2511), w.open(t, "alice", mcp.Revision2511)
	if got := w.do(t, legacyCall(one, "progress")); !strings.Contains(got.Body.String(), "id: p1-2") {
		t.Fatalf("got %s, want an event p1-2", got.Body)
	}
	for _, event := range []string{
		"p1-2", "p1-0", strings.Repeat("p", 600),
		"p1-18446744073709551616", "p1-+2", "-1",
	} {
		if got := w.do(t, inSession("GET", other, "").with("Last-Event-ID",
			event)); got.Code != http.StatusGone || stable(t, got.Body) != "DB-EVENT" {
			t.Errorf("event %q: got %d %s, want 410", event, got.Code, got.Body)
		}
	}
}

// routes returns every route that is served, as a path that matches it.
func routes(t *testing.T, h http.Handler) []string {
	t.Helper()
	seen := make(map[string]bool)
	var paths []string
	err := chi.Walk(h.(chi.Routes), func(_, route string, _ http.Handler,
		_ ...func(http.Handler) http.Handler,
	) error {
		if path := strings.ReplaceAll(route, "{tenant}", "acme"); !seen[path] {
			seen[path] = true
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil || len(paths) != 10 {
		t.Fatalf("got routes %q, %v; want 10: a new one must be looked at here", paths, err)
	}
	return paths
}

var methods = []string{
	"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT",
	"PROPFIND",
}

// TestT5OriginAndHost puts a foreign Host alone, and a foreign Origin alone, to every
// route by every method.
func TestT5OriginAndHost(t *testing.T) {
	bubble(t, originAndHost) // because refusals come late after a hundred
}

func originAndHost(t *testing.T, w *world) {
	h := w.Handler()
	bad := []struct{ name, value string }{
		{"Host", "evil.test"},
		{"Host", "mcp.test.evil.test"},
		{"Host", "evil.test:443"},
		{"Host", "mcp.test@evil.test"},
		{"Host", "[mcp.test"},
		{"Origin", "https://evil.test"},
		{"Origin", "null"},
		{"Origin", "https://app.test.evil.test"},
		{"Origin", "https://app.test:444"},
		{"Origin", "http://app.test"},
		{"Origin", "file://mcp.test"},
		{"Origin", "mcp.test"},
		{"Origin", "https://app.test, https://evil.test"},
	}
	for _, path := range append(routes(t, h), "/", "/nowhere") {
		for _, method := range methods {
			for _, b := range bad {
				m := message{
					method: method, path: path, token: "alice",
					headers: map[string]string{b.name: b.value, "Access-Control-Request-Method": "POST"},
				}
				got := record(h, m.request(t.Context(), ""))
				if got.Code != http.StatusForbidden || got.Header().Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s %s with %s %q: got %d %v, want 403", method, path, b.name, b.value, got.Code,
						got.Header())
				}
			}
			twice := message{method: method, path: path, token: "alice"}.request(t.Context(), "")
			twice.Header["Origin"] = []string{"https://app.test", "https://evil.test"}
			if got := record(h, twice); got.Code != http.StatusForbidden {
				t.Errorf("%s %s with two origins: got %d, want 403", method, path, got.Code)
			}
		}
	}
	for _, good := range []struct{ name, value string }{
		{"Host", "mcp.test"},
		{"Host", "MCP.test:443"},
		{"Host", "127.0.0.1:8080"},
		{"Origin", "https://app.test"},
		{"Origin", "https://mcp.test"},
		{"Origin", "http://mcp.test"},
	} {
		if got := w.do(t, modernCall("echo").with(good.name, good.value)); got.Code != http.StatusOK {
			t.Errorf("%s %q: got %d %s, want 200", good.name, good.value, got.Code, got.Body)
		}
	}
}

func TestPreflight(t *testing.T) {
	w := newWorld(t)
	m := message{method: "OPTIONS", path: "/mcp", headers: map[string]string{
		"Origin":                        "https://app.test",
		"Access-Control-Request-Method": "POST",
	}}
	got := w.do(t, m)
	if got.Code != http.StatusNoContent ||
		got.Header().Get("Access-Control-Allow-Origin") != "https://app.test" ||
		!strings.Contains(got.Header().Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("got %d %v, want 204 for that origin", got.Code, got.Header())
	}
	if got := w.do(t, m.with("Access-Control-Request-Method", "")); got.Code != http.StatusUnauthorized {
		t.Errorf("OPTIONS that is no preflight: got %d, want 401", got.Code)
	}
}

// TestT14EveryRouteWantsAToken walks the routes: without a good token nothing but the
// metadata answers.
func TestT14EveryRouteWantsAToken(t *testing.T) {
	w := newWorld(t)
	h := w.Handler()
	cells := 0
	for _, path := range append(routes(t, h), "/", "/nowhere", "/debug/pprof/", "/metrics", "/healthz") {
		for _, method := range methods {
			for _, authorization := range []string{
				"", "Bearer forged", "Bearer ", "Bearer", "alice", "Basic alice", "Bearer alice bob",
				"Bearer expired", "Bearer alice,Bearer alice", "bearer\talice",
			} {
				m := message{
					method: method, path: path,
					headers: map[string]string{"Authorization": authorization},
				}
				if method == "POST" {
					m.body = initialize(mcp.Revision2511).body
				}
				got := record(h, m.request(t.Context(), ""))
				public := strings.HasPrefix(path, "/.well-known/oauth-protected-resource")
				cells++
				switch {
				case public && (method == "GET" || method == "HEAD"):
					if got.Code != http.StatusOK {
						t.Errorf("%s %s: got %d, want 200", method, path, got.Code)
					}
				case got.Code == http.StatusUnauthorized:
					if got.Header().Get("WWW-Authenticate") == "" || !strings.HasPrefix(stable(t, got.Body),
						"DB-AUTH-") {
						t.Errorf("%s %s: got %v %s, want a challenge", method, path, got.Header(), got.Body)
					}
				case method == "PROPFIND" && got.Code == http.StatusNotFound: // a method that no route knows
					continue
				case got.Code != http.StatusNotFound:
					t.Errorf("%s %s with %q: got %d %s, want 401 or 404", method, path, authorization,
						got.Code, got.Body)
				}
				if served := path == "/mcp" || path == "/sse" || path == "/messages" ||
					path == "/t/acme/mcp"; served && got.Code != http.StatusUnauthorized {
					t.Errorf("%s %s with %q: got %d, want 401", method, path, authorization, got.Code)
				}
			}
		}
	}
	t.Attr("cells", fmt.Sprint(cells))
}

// TestT15SameChecksUnderEveryRevision puts the same refused requests under every revision
// header.
func TestT15SameChecksUnderEveryRevision(t *testing.T) {
	w := newWorld(t)
	session := w.open(t, "alice", mcp.Revision2511)
	revisions := append(mcp.Revisions(), "", "2099-01-01", "1999-01-01", "banana", "2025-11-25,2026-07-28")
	refused := []struct {
		name   string
		change func(message) message
		status int
	}{
		{"no token", func(m message) message { return m.as("") }, http.StatusUnauthorized},
		{"forged token", func(m message) message { return m.as("forged") }, http.StatusUnauthorized},
		{"tenant not served", func(m message) message { return m.as("stranger") }, http.StatusForbidden},
		{
			"foreign origin", func(m message) message { return m.with("Origin", "https://evil.test") },
			http.StatusForbidden,
		},
		{
			"foreign host", func(m message) message { return m.with("Host", "evil.test") },
			http.StatusForbidden,
		},
		{
			"another tenant's path", func(m message) message { m.path = "/t/globex/mcp"; return m },
			http.StatusNotFound,
		},
		{"form", func(
			m message,
		) message {
			return m.with("Content-Type", "application/x-www-form-urlencoded")
		}, http.StatusUnsupportedMediaType},
		{
			"text", func(m message) message { return m.with("Content-Type", "text/plain") },
			http.StatusUnsupportedMediaType,
		},
		{
			"no type", func(m message) message { return m.with("Content-Type", "") },
			http.StatusUnsupportedMediaType,
		},
		{
			"gzip", func(m message) message { return m.with("Content-Encoding", "gzip") },
			http.StatusUnsupportedMediaType,
		},
		{
			"too large", func(m message) message { m.body += strings.Repeat(" ", 4<<20); return m },
			http.StatusRequestEntityTooLarge,
		},
		{
			"name twice", func(m message) message { m.body = m.body[:len(m.body)-1] + `,"id":1}`; return m },
			http.StatusBadRequest,
		},
		{"twin of a name", func(
			m message,
		) message {
			m.body = m.body[:len(m.body)-1] + `,"METHOD":"x"}`
			return m
		}, http.StatusBadRequest},
	}
	for _, revision := range revisions {
		for _, base := range []message{
			modernCall("echo"), legacyCall(session, "echo"),
			initialize(mcp.Revision2506),
		} {
			for _, r := range refused {
				if got := w.do(t, r.change(base.with(mcp.HeaderProtocolVersion,
					revision))); got.Code != r.status {
					t.Errorf("%s under revision %q: got %d %s, want %d", r.name, revision, got.Code, got.Body,
						r.status)
				}
			}
		}
	}
}

// TestT23BodyLimit shows that the limit of the body holds however its length is declared.
func TestT23BodyLimit(t *testing.T) {
	w := newWorld(t, func(w *world) { w.config.MaxBody = 1000 })
	base := w.serve(t)
	good := modernCall("echo")
	chunked := func(size int) int {
		body := good.body + strings.Repeat(" ", size-len(good.body))
		r := good.request(t.Context(), base)
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if got := chunked(1000); got != http.StatusOK {
		t.Errorf("chunked, at the limit: got %d, want 200", got)
	}
	if got := chunked(1001); got != http.StatusRequestEntityTooLarge {
		t.Errorf("chunked, over the limit: got %d, want 413", got)
	}
	for name, head := range map[string]string{
		"declares more than it sends": "Content-Length: 900\r\n",
		"declares too much":           "Content-Length: 9000000000\r\n",
	} {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(
			c, "POST /mcp HTTP/1.1\r\nHost: mcp.test\r\nAuthorization: Bearer alice\r\nContent-Type: application/json\r\n%s\r\n%s", head, good.body)
		c.(*net.TCPConn).CloseWrite()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil && resp.StatusCode < 400 {
			t.Errorf("%s: got %d, want a refusal", name, resp.StatusCode)
		}
		c.Close()
	}
	if got := call(t.Context(), t, base, good); got.StatusCode != http.StatusOK {
		t.Errorf("a good request after all: got %d, want 200", got.StatusCode)
	}
}

// TestSlowBody shows that a client that sends its body too slowly is turned away, and
// when.
func TestSlowBody(t *testing.T) {
	for _, test := range []struct {
		name  string
		drip  int // bytes a second, after the first
		after time.Duration
	}{
		{"stops", 0, 2 * time.Second},
		{"is slower than the least rate", 500, 4 * time.Second},
		{"takes too long in all", 2000, 10 * time.Second},
	} {
		bubble(t, func(t *testing.T, w *world) {
			client, server := net.Pipe()
			s := &http.Server{Handler: w.Handler()}
			go s.Serve(&oneConnection{server})
			defer s.Close()
			var sending sync.WaitGroup
			sending.Go(func() {
				fmt.Fprint(
					client, "POST /mcp HTTP/1.1\r\nHost: mcp.test\r\nAuthorization: Bearer alice\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{")
				for test.drip > 0 {
					<-time.After(time.Second / 10)
					if _, err := fmt.Fprint(client, strings.Repeat(" ", test.drip/10)); err != nil {
						return
					}
				}
			})
			started := time.Now()
			resp, err := http.ReadResponse(bufio.NewReader(client), nil)
			took := time.Since(started)
			if err != nil || resp.StatusCode != http.StatusRequestTimeout ||
				took < test.after-time.Second/5 || took > test.after+time.Second/5 {
				t.Errorf("%s: got %v, %v after %s; want 408 after %s", test.name, resp, err, took, test.after)
			} else if body, _ := io.ReadAll(resp.Body); !strings.Contains(string(body),
				"after 2s it must come with 1 KiB a second, and within 10s in all") {
				t.Errorf("%s: got %s, want how fast it must come", test.name, body)
			}
			client.Close()
			sending.Wait()
		})
	}
}

// TestARefusedRequestHoldsItsConnectionNoLonger: who was refused before its body was
// looked at, for its host or because too much was in work, and never sent all of it, kept
// its connection for ever.
func TestARefusedRequestHoldsItsConnectionNoLonger(t *testing.T) {
	for _, host := range []string{"other.test", "mcp.test"} {
		bubble(t, func(t *testing.T, w *world) {
			client, server := net.Pipe()
			s := &http.Server{Handler: w.Handler()}
			go s.Serve(&oneConnection{server})
			defer s.Close()
			defer time.AfterFunc(time.Minute, func() { client.Close() }).Stop()
			var sending sync.WaitGroup
			sending.Go(func() {
				fmt.Fprintf(client, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Length: 100000\r\n\r\n{", host)
			})
			started := time.Now()
			_, _ = io.Copy(io.Discard, client) // to the end of the connection
			if took := time.Since(started); took > 11*time.Second {
				t.Errorf("%s: it had its connection for %s, want ten seconds", host, took)
			}
			client.Close()
			sending.Wait()
		}, func(w *world) { w.config.MaxRequests = -1 })
	}
}

// oneConnection is a listener with one connection.
type oneConnection struct{ net.Conn }

func (l *oneConnection) Accept() (net.Conn, error) {
	if c := l.Conn; c != nil {
		l.Conn = nil
		return c, nil
	}
	return nil, net.ErrClosed
}
func (*oneConnection) Close() error   { return nil }
func (*oneConnection) Addr() net.Addr { return &net.UnixAddr{} }

// TestT27NoHeaderChoosesATenant sends what other systems took for an identity.
func TestT27NoHeaderChoosesATenant(t *testing.T) {
	w := newWorld(t)
	var callers []gateway.Caller
	w.behind(&fakeDesk{handle: func(_ context.Context, c gateway.Caller, _ *gateway.Request) (mcp.Object,
		error,
	) {
		callers = append(callers, c)
		return textResult("x"), nil
	}})
	for _, header := range []string{
		"X-Tenant", "X-Tenant-Id", "Tenant", "X_Tenant", "X-Forwarded-User", "X-Forwarded-Host",
		"X-Original-Url", "X-Rewrite-Url", "Forwarded",
		"X-Http-Method-Override", "Mcp_Session_Id", "Mcp_Method", "X-Forwarded-For", "X-Real-Ip",
	} {
		m := modernCall("echo").with(header, "globex")
		if got := w.do(t, m.with("Connection", "close, Authorization, X-Tenant, "+
			header)); got.Code != http.StatusOK {
			t.Errorf("%s: got %d %s, want 200", header, got.Code, got.Body)
		}
	}
	for _, c := range callers {
		if c.Tenant.ID != "acme" || c.Principal.Subject != "alice" {
			t.Errorf("got caller %+v of tenant %s, want alice of acme", c.Principal, c.Tenant.ID)
		}
	}
	if len(callers) != 14 {
		t.Errorf("got %d calls, want 14", len(callers))
	}
}

// TestAWrongPathSaysWhereTheEndpointIs asks for what people type who forget the path, or
// end it with a slash.
func TestAWrongPathSaysWhereTheEndpointIs(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/", "/mcp/", "/sse/"} {
		m := modernCall("echo")
		m.path = path
		got := w.do(t, m)
		if !strings.Contains(got.Body.String(), "the endpoint for MCP is /mcp\"") {
			t.Errorf("%s: got %d %s, want it to name /mcp", path, got.Code, got.Body)
		}
	}
}

// TestT28ExactPaths sends spellings of the paths that some parser takes for the same.
func TestT28ExactPaths(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{
		"/", "/mcp/", "//mcp", "/MCP", "/./mcp", "/mcp/.", "/x/../mcp", "/mcp/../mcp", "/%6dcp", "/mcp%2f",
		"/mcp%00", "/mcp;x=1", "/mcp.", "/mcp%20",
		"/.well-known/oauth-protected-resource/", "/.well-known/oauth-protected-resource/sse",
		"/.well-known/oauth-authorization-server",
		"/t/acme/mcp/", "/t//mcp", "/t/mcp", "/t/acme", "/t/ACME/mcp", "/t/acme%2fx/mcp",
		"/t/globex%2f..%2facme/mcp", "/t/globex/../acme/mcp", "/t/%61cme/mcp",
		"/sse/", "//sse", "/messages/", "/t/acme/sse", "/mcp/sse",
	} {
		m := modernCall("echo")
		m.path = path
		if got := w.do(t, m); got.Code != http.StatusNotFound || stable(t, got.Body) != "DB-NOT-FOUND" {
			t.Errorf("%s: got %d %s, want 404", path, got.Code, got.Body)
		}
	}
}

// TestT32EventsCannotBeInjected lets a tool say what would end its event and begin
// others.
func TestT32EventsCannotBeInjected(t *testing.T) {
	evil := "\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n\r\rid: 7\r\n\r\nevent: endpoint\u2028\u0085\x00\ufeff"
	w := newWorld(t)
	w.behind(&fakeDesk{handle: func(ctx context.Context, _ gateway.Caller, r *gateway.Request) (mcp.Object,
		error,
	) {
		pretty, err := mcp.ParseObject([]byte("{\n\r\n\"message\": " + string(mcp.String(evil)) + "\r}"))
		if err != nil {
			return mcp.Object{}, err
		}
		if err := r.Notify(ctx, mcp.Notification{Method: mcp.NotifyProgress, Params: pretty}); err != nil {
			return mcp.Object{}, err
		}
		return textResult(evil), nil
	}})
	id := w.open(t, "alice", mcp.Revision2506)
	for name, m := range map[string]message{"modern": modernCall("echo"), "legacy": legacyCall(id, "echo")} {
		got := w.do(t, m)
		var events []mcp.Object
		for e, err := range sse.Read(bytes.NewReader(got.Body.Bytes()), 1<<20) {
			if err != nil {
				t.Fatal(err)
			}
			o, err := mcp.ParseObject(bytes.Clone(e.Data))
			if err != nil || e.Type != "" || strings.Contains(e.ID, "7") && name == "modern" {
				t.Errorf("%s: got event %q of type %q, %v", name, e.Data, e.Type, err)
			}
			events = append(events, o)
		}
		if len(events) != 2 || events[0].Object("params").Text("message") != evil {
			t.Errorf("%s: got %d events, %q; want the message as it was, and the result", name, len(events),
				got.Body)
		}
	}
}

// TestT13AddressBehindProxies shows whose word is taken for a client's address.
func TestT13AddressBehindProxies(t *testing.T) {
	var out bytes.Buffer
	w := newWorld(t, logging(&out),
		func(w *world) { w.settings.TrustedProxies = prefixes("192.0.2.0/24", "10.0.0.0/8") })
	tests := []struct{ name, peer, forwarded, want string }{
		{"no proxy", "198.51.100.7:1", "203.0.113.9", "198.51.100.7"},
		{"proxy", "192.0.2.1:1", "203.0.113.9", "203.0.113.9"},
		{"client lies before the proxy", "192.0.2.1:1", "127.0.0.1, 203.0.113.9", "203.0.113.9"},
		{"two proxies", "192.0.2.1:1", "203.0.113.9, 10.1.1.1", "203.0.113.9"},
		{"proxy says nothing", "192.0.2.1:1", "", "192.0.2.1"},
		{"no address", "192.0.2.1:1", "203.0.113.9, evil\" x", "192.0.2.1"},
		{"IPv6", "[2001:db8::1]:1", "203.0.113.9", "2001:db8::1"},
		{"proxy that writes ports", "192.0.2.1:1", "203.0.113.9:5678", "203.0.113.9"},
		{"the same, IPv6", "192.0.2.1:1", "[2001:db8::9]:5678", "2001:db8::9"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out.Reset()
			r := modernCall("echo").with("X-Forwarded-For", test.forwarded).request(t.Context(), "")
			r.RemoteAddr = test.peer
			w.Handler().ServeHTTP(httptest.NewRecorder(), r)
			if got := object(out.String()).Text("remote"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}
