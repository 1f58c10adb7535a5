package server_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// nameless returns an answer, its headers too, without what may differ between two
// answers that tell the same: the id of the request, which must be there.
func nameless(t testing.TB, got *httptest.ResponseRecorder) string {
	t.Helper()
	id := got.Header().Get("X-Request-Id")
	if len(id) != 26 {
		t.Errorf("got %d %v %s, want the request's id in a header", got.Code, got.Header(), got.Body)
		return ""
	}
	return strings.ReplaceAll(fmt.Sprint(got.Code, got.Header(), got.Body), id, "ID")
}

// named fails when the answer has no id of its own in a header, or is an error that names
// another or none.
func named(t testing.TB, seen map[string]bool, got *httptest.ResponseRecorder) {
	t.Helper()
	id := got.Header().Get("X-Request-Id")
	if len(got.Header().Values("X-Request-Id")) != 1 || len(id) != 26 || seen[id] {
		t.Errorf("got ids %q, want one that no other request has", got.Header().Values("X-Request-Id"))
	}
	seen[id] = true
	body := got.Body.String()
	isError := got.Header().Get("Content-Type") != "" && strings.Contains(body, `"error":{`)
	if got.Code >= 400 && !isError {
		t.Errorf("got %d %s, want an error of JSON-RPC", got.Code, body)
	}
	if isError && strings.Count(body, `"error":{`) != strings.Count(body, `"requestId":"`+id+`"`) {
		t.Errorf("got %d %s, want each error with requestId %s", got.Code, body, id)
	}
}

// TestEveryAnswerNamesItsRequest sends every route by every method under everything that
// the door refuses, and a client's own idea of an id with it: every answer has an id of
// the gateway's making, and so has every error in it.
func TestEveryAnswerNamesItsRequest(t *testing.T) {
	var out bytes.Buffer
	w := newWorld(t, logging(&out), func(w *world) { w.config.MaxBody = 2000 })
	h, seen := w.Handler(), make(map[string]bool)
	refused := []struct {
		name   string
		change func(message) message
	}{ // the first eight refuse every request of a route that wants a token
		{"no token", func(m message) message { return m.as("") }},
		{"forged token", func(m message) message { return m.as("forged") }},
		{"expired token", func(m message) message { return m.as("expired") }},
		{"keys not to be had", func(m message) message { return m.as("keyless") }},
		{"tenant not served", func(m message) message { return m.as("stranger") }},
		{"foreign host", func(m message) message { return m.with("Host", "evil.test") }},
		{"foreign origin", func(m message) message { return m.with("Origin", "https://evil.test") }},
		{"accept", func(m message) message { return m.with("Accept", "text/html") }},
		{"nothing", func(m message) message { return m }},
		{"unknown session", func(m message) message { return m.with(mcp.HeaderSessionID, "unknown") }},
		{"media type", func(m message) message { return m.with("Content-Type", "text/plain") }},
		{"too large", func(m message) message { m.body += strings.Repeat(" ", 2000); return m }},
		{"preflight", func(m message) message {
			return m.with("Origin", "https://app.test").with("Access-Control-Request-Method", "POST")
		}},
	}
	cells := 0
	for _, path := range append(routes(t, h), "/", "/nowhere", "/t/globex/mcp",
		"/messages?sessionId=unknown") {
		for _, method := range methods {
			for i, r := range refused {
				m := message{
					method: method, path: path, token: "alice",
					headers: map[string]string{"X-Request-Id": "canary\" evil"},
				}
				if method == "POST" {
					m.body = initialize(mcp.Revision2511).body
				}
				if path == "/sse" && method == "GET" && i >= 8 {
					continue // it would be a stream
				}
				got := record(h, r.change(m).request(t.Context(), ""))
				if path == "/register" && strings.Contains(got.Body.String(), "error_description") {
					got.Code = 0 // an error of OAuth, which has no place for an id
				}
				named(t, seen, got)
				cells++
			}
		}
	}
	if strings.Contains(out.String(), "canary") {
		t.Errorf("a client's id stands in the log")
	}
	t.Logf("%d cells", cells)
}

// TestErrorOfACallNamesItsRequest makes calls fail in every form that an answer has:
// plain, as an event of a stream, in a batch, on the stream of a session, and with an
// error that an upstream worded. The error names the request.
func TestErrorOfACallNamesItsRequest(t *testing.T) {
	var out bytes.Buffer
	w := newWorld(t, logging(&out))
	batching, session := w.open(t, "alice", mcp.Revision2503), w.open(t, "alice", mcp.Revision2511)
	seen := make(map[string]bool)
	unknown := `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"nobody"}}`
	for _, m := range []message{
		modernCall("nobody"),
		modernCall("echo").with(mcp.HeaderName, "other"),
		inSession("POST", session, fmt.Sprintf(unknown, 1)),
		inSession("POST", batching, "["+fmt.Sprintf(unknown, 1)+","+fmt.Sprintf(unknown, 2)+","+pingBody+"]"),
		inSession("POST", batching, "["+fmt.Sprintf(unknown, 1)+","+fmt.Sprintf(unknown, 2)+
			"]").with("Accept", "text/event-stream, application/json"),
		inSession("POST", session, `{"jsonrpc":"2.0","id":1,"method":"nothing"}`),
		inSession("POST", session,
			`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///nobody"}}`),
		inSession("POST", session, "{"),
	} {
		got := w.do(t, m)
		if !strings.Contains(got.Body.String(), `"requestId"`) {
			t.Errorf("got %d %s, want an error", got.Code, got.Body)
		}
		named(t, seen, got)
		if !strings.Contains(out.String(), `"request_id":"`+got.Header().Get("X-Request-Id")+`"`) {
			t.Errorf("the log has no request %s", got.Header().Get("X-Request-Id"))
		}
	}
}

// TestErrorOnASessionsStreamNamesItsRequest shows that an answer over HTTP+SSE names the
// request that posted it, not the one that opened the stream.
func TestErrorOnASessionsStreamNamesItsRequest(t *testing.T) {
	w := newWorld(t)
	base := w.serve(t)
	stream := call(t.Context(), t, base, message{
		method: "GET", path: "/sse", token: "alice",
		headers: map[string]string{"Host": "mcp.test"},
	})
	stream.expect(t, "event: endpoint")
	post := message{
		method: "POST", path: strings.TrimPrefix(stream.line(t), "data: "), token: "alice",
		headers: map[string]string{"Host": "mcp.test"},
	}
	post.body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nobody"}}`
	posted := call(t.Context(), t, base, post)
	if posted.StatusCode != http.StatusAccepted {
		t.Fatalf("got %d, want 202", posted.StatusCode)
	}
	stream.expect(t, "event: message", `"requestId":"`+posted.Header.Get("X-Request-Id")+`"`)
	if stream.Header.Get("X-Request-Id") == posted.Header.Get("X-Request-Id") {
		t.Error("two requests have one id")
	}
}

// TestUpstreamCannotNameARequest shows whose id stands in an error that an upstream
// worded: the gateway's. Data that has no place for it is passed on as it is.
func TestUpstreamCannotNameARequest(t *testing.T) {
	for data, want := range map[string]string{
		`{"requestId":"forged","x":1}`: `"data":{"requestId":"ID","x":1}`,
		``:                             `"data":{"requestId":"ID"}`,
		`"text"`:                       `"data":"text"`,
		`[1]`:                          `"data":[1]`,
	} {
		w := newWorld(t)
		w.behind(&fakeDesk{handle: func(context.Context, gateway.Caller, *gateway.Request) (mcp.Object,
			error,
		) {
			err := mcp.Errorf(-1, "x")
			if data != "" {
				err.Data = mcp.RawJSON(data)
			}
			return mcp.Object{}, err
		}})
		if got := nameless(t, w.do(t, modernCall("echo"))); !strings.Contains(got, want) {
			t.Errorf("data %s: got %s, want %s in it", data, got, want)
		}
	}
}
