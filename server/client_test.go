package server_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

const (
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":"t"}`
	pingBody   = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
)

// message is one request over HTTP, with what a good one has.
type message struct {
	method, path, token, body string
	headers                   map[string]string // besides; an empty value leaves one out
}

// modernCall is a tools/call of 2026-07-28.
func modernCall(tool string) message {
	return message{
		method: "POST", path: "/mcp", token: "alice",
		body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool +
			`","arguments":{"text":"x"},` + modernMeta + `}}`,
		headers: map[string]string{
			mcp.HeaderProtocolVersion: mcp.Revision2607,
			mcp.HeaderMethod:          mcp.MethodToolsCall, mcp.HeaderName: tool,
		},
	}
}

// modernListen is a subscriptions/listen of 2026-07-28.
func modernListen() message {
	return message{
		method: "POST", path: "/mcp", token: "alice",
		body: `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},` + modernMeta + `}}`,
		headers: map[string]string{
			mcp.HeaderProtocolVersion: mcp.Revision2607,
			mcp.HeaderMethod:          mcp.MethodListen,
		},
	}
}

// inSession is a message of a session.
func inSession(method, id, body string) message {
	return message{
		method: method, path: "/mcp", token: "alice", body: body,
		headers: map[string]string{mcp.HeaderSessionID: id},
	}
}

// legacyCall is a tools/call of a session.
func legacyCall(id, tool string) message {
	return inSession("POST", id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+
		`","_meta":{"progressToken":1}}}`)
}

func initialize(revision string) message {
	return message{
		method: "POST", path: "/mcp", token: "alice",
		body: `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + revision +
			`","capabilities":{}}}`,
	}
}

func (m message) as(token string) message {
	m.token = token
	return m
}

func (m message) with(name, value string) message {
	headers := map[string]string{name: value}
	for k, v := range m.headers {
		if k != name {
			headers[k] = v
		}
	}
	m.headers = headers
	return m
}

// request makes the HTTP request under base, "" for a recorder.
func (m message) request(ctx context.Context, base string) *http.Request {
	if base == "" {
		base = "http://mcp.test"
	}
	r, err := http.NewRequestWithContext(ctx, m.method, base+m.path, reader(m.body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	if m.token != "" {
		r.Header.Set("Authorization", "Bearer "+m.token)
	}
	if m.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range m.headers {
		switch {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	return r
}

// do sends m to the handler and returns the whole answer.
func (w *world) do(t testing.TB, m message) *httptest.ResponseRecorder {
	t.Helper()
	return record(w.Handler(), m.request(t.Context(), ""))
}

func record(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	if r.Body == nil {
		r.Body = http.NoBody // as a server gives it
	}
	r.RequestURI, r.RemoteAddr = r.URL.RequestURI(), "192.0.2.1:1234"
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, r)
	return recorder
}

// open opens a session and returns its id.
func (w *world) open(t testing.TB, token, revision string) string {
	t.Helper()
	answer := w.do(t, initialize(revision).as(token))
	id := answer.Header().Get(mcp.HeaderSessionID)
	if answer.Code != http.StatusOK || id == "" {
		t.Fatalf("initialize: got %d %s", answer.Code, answer.Body)
	}
	w.do(t, inSession("POST", id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`).as(token))
	return id
}

// serve serves the world on a real connection and returns the address.
func (w *world) serve(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(w.Handler())
	t.Cleanup(func() {
		w.EndStreams()
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// answer is what comes back over a real connection.
type answer struct {
	*http.Response
	lines *bufio.Reader
}

// call sends m over a real connection. The answer is read as it comes.
func call(ctx context.Context, t testing.TB, base string, m message) *answer {
	t.Helper()
	resp, err := http.DefaultClient.Do(m.request(ctx, base))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return &answer{resp, bufio.NewReader(resp.Body)}
}

// line returns the next line of the stream that is not blank, "" at its end.
func (a *answer) line(t testing.TB) string {
	t.Helper()
	for {
		line, err := a.lines.ReadString('\n')
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
		if err == io.EOF {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// expect wants the next lines of the stream to hold these texts, one each.
func (a *answer) expect(t testing.TB, texts ...string) {
	t.Helper()
	for _, want := range texts {
		if got := a.line(t); want == "" && got != "" || !strings.Contains(got, want) {
			t.Fatalf("got line %q, want %q in it", got, want)
		}
	}
}

// bubble runs f in a synctest bubble with a world of its own.
func bubble(t *testing.T, f func(t *testing.T, w *world), change ...func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, change...)) })
}

// stable returns the stable code in the body of a refusal.
func stable(t testing.TB, body *bytes.Buffer) string {
	t.Helper()
	o, err := mcp.ParseObject(body.Bytes())
	if err != nil || o.Text("jsonrpc") != "2.0" {
		t.Fatalf("the body is no JSON-RPC: %q", body)
	}
	return o.Object("error").Object("data").Text("code")
}

// wait lets a moment pass, in a bubble.
func wait(t *testing.T) {
	t.Helper()
	<-time.After(time.Second)
	synctest.Wait()
}
