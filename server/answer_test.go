package server_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestTrap04_StatusFollowsErrorInModernOnly is the table from errors of the desk to HTTP
// statuses. Codes that an upstream chose mean nothing to the transport.
func TestTrap04_StatusFollowsErrorInModernOnly(t *testing.T) {
	scope := &mcp.Error{
		Code: mcp.CodeForbidden, Message: "no",
		Data: mcp.RawJSON(`{"code":"DB-SCOPE","scope":"tools.read tools.write"}`),
	}
	forged := &mcp.Error{
		Code: mcp.CodeForbidden, Message: "no",
		Data: mcp.RawJSON(`{"scope":"x\", realm=\"evil\r\nX: y"}`),
	}
	tests := []struct {
		name           string
		err            *mcp.Error
		modern, legacy int
		challenge      string
	}{
		{"unknown tool", mcp.Errorf(mcp.CodeInvalidParams, "x"), 200, 200, ""},
		{"internal", mcp.Errorf(mcp.CodeInternal, "x"), 200, 200, ""},
		{"method", mcp.Errorf(mcp.CodeMethodNotFound, "x"), 404, 200, ""},
		{"capability", mcp.Errorf(mcp.CodeMissingCapability, "x"), 400, 0, ""}, // no error for a model
		{"limited", mcp.Errorf(mcp.CodeLimited, "x").After(1), 429, 429, ""},
		{"unavailable", mcp.Errorf(mcp.CodeUnavailable, "x").After(1), 503, 503, ""},
		{
			"scope", scope, 403, 403,
			`Bearer error="insufficient_scope", scope="tools.read tools.write", resource_metadata="https://mcp.test/.well-known/oauth-protected-resource/mcp"`,
		},
		{"scope that breaks the header", forged, 403, 403, ""},
		{"upstream says 401", mcp.Errorf(401, "x"), 200, 200, ""},
		{"upstream says 404", mcp.Errorf(404, "x"), 200, 200, ""},
		{"upstream says 302", mcp.Errorf(302, "x"), 200, 200, ""},
		{"upstream's own", mcp.Errorf(-1, "x"), 200, 200, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			w.behind(&fakeDesk{handle: func(context.Context, gateway.Caller, *gateway.Request) (mcp.Object,
				error,
			) {
				return mcp.Object{}, test.err
			}})
			id := w.open(t, "alice", mcp.Revision2511)
			messages, statuses := []message{modernCall("echo"), legacyCall(id, "echo")}, []int{
				test.modern,
				test.legacy,
			}
			for i, want := range statuses {
				if want == 0 {
					continue
				}
				got := w.do(t, messages[i])
				if got.Code != want || got.Header().Get("WWW-Authenticate") != test.challenge {
					t.Errorf("got %d %v, want %d with challenge %q", got.Code, got.Header(), want,
						test.challenge)
				}
				if (got.Header().Get("Retry-After") == "1") != (test.err.RetryAfter > 0) {
					t.Errorf("got Retry-After %q for %s", got.Header().Get("Retry-After"),
						test.err.RetryAfter)
				}
				if !strings.Contains(got.Body.String(), `"id":1,"error":{"code":`+fmt.Sprint(test.err.Code)) {
					t.Errorf("got %s, want the error with its id", got.Body)
				}
			}
		})
	}
}

// TestTheLogCallsNoQuestionOk makes calls that end in a task or in a question, and such
// as only look so. The audit has the same words for them.
func TestTheLogCallsNoQuestionOk(t *testing.T) {
	var log bytes.Buffer
	w := newTasksWorld(t, logging(&log))
	tool := func(name, result string) registry.Offer {
		return registry.Offer{
			Definition: object(`{"name":"` + name + `","inputSchema":{"type":"object"}}`), Timeout: time.Minute,
			Call: func(context.Context, *registry.Call) (mcp.Object, error) { return object(result), nil },
		}
	}
	for _, refusal := range w.registry.Replace(registry.Source{Name: "box", Tools: []registry.Offer{
		tool("asks", `{"resultType":"input_required","requestState":"s"}`),
		tool("mentions", `{"task":{"taskId":"t"},"content":[]}`),
		tool("completes", `{"resultType":"complete","content":[]}`),
	}}) {
		t.Fatalf("refused: %+v", refusal)
	}
	given := modernCall("given")
	given.body = strings.Replace(given.body, modernMeta, tasksMeta, 1)
	asked := inSession("POST", w.open(t, "alice", mcp.Revision2511),
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"asked","task":{"ttl":7}}}`)
	for name, test := range map[string]struct {
		message message
		want    string
	}{
		"a question":                    {modernCall("asks"), "input_required"},
		"a question under a key":        {modernCall("asks").with("Idempotency-Key", "a"), "input_required"},
		"a task of 2026-07-28":          {given, "task"},
		"a task under a key":            {given.with("Idempotency-Key", "b"), "task"},
		"a task of 2025-11-25":          {asked, "task"},
		"a result that mentions a task": {modernCall("mentions"), "ok"},
		"a complete result":             {modernCall("completes"), "ok"},
	} {
		log.Reset()
		w.do(t, test.message)
		if got := lastLine(&log).Text("outcome"); got != test.want {
			t.Errorf("%s: got the outcome %s, want %s", name, got, test.want)
		}
	}
}

// TestBatchCostsItsLength shows that messages in a batch are not cheaper than alone.
func TestBatchCostsItsLength(t *testing.T) {
	w := newWorld(t)
	id := w.open(t, "usual", mcp.Revision2503)
	var elements []string
	for i := range 32 {
		elements = append(elements, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
	}
	batch := inSession("POST", id, "["+strings.Join(elements, ",")+"]").as("usual")
	for n := range 20 {
		if got := w.do(t, batch); got.Code == http.StatusTooManyRequests {
			if n < 2 || n > 4 {
				t.Errorf(
					"batch %d of 32 was the first over the half of 200 that one user may take, want the 4th or so", n+1)
			}
			return
		}
	}
	t.Error("20 batches of 32 at once were all admitted")
}

// TestABatchOverItsLimitDoesNothing sends a batch again and again that cancels a call,
// until one is over the limit of requests: that one cancels nothing, since it is sent
// again later.
func TestABatchOverItsLimitDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.open(t, "usual", mcp.Revision2503)
		pings := strings.Repeat(`{"jsonrpc":"2.0","id":%d,"method":"ping"},`, 31)
		for i := range 31 {
			pings = strings.Replace(pings, "%d", strconv.Itoa(100+i), 1)
		}
		for n := range 20 {
			call := strconv.Itoa(10 + n)
			over := make(chan struct{})
			go func() {
				defer close(over)
				w.do(t, legacyCall(id, "slow").as("usual").id(call))
			}()
			synctest.Wait()
			started, before := w.counts()
			got := w.do(t, inSession("POST", id, "["+pings+
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+call+`}}]`).as("usual"))
			synctest.Wait()
			_, after := w.counts()
			w.letGo()
			<-over
			switch {
			case started != n+1:
				t.Fatalf("%d calls began, want %d", started, n+1)
			case got.Code == http.StatusOK && after == before:
				t.Errorf("batch %d cancelled nothing", n+1)
			case got.Code == http.StatusTooManyRequests:
				if after != before {
					t.Error("a batch that was refused cancelled a call")
				}
				return
			}
		}
		t.Error("20 batches of 32 at once were all admitted")
	})
}

func TestBatchOver32(t *testing.T) {
	w := newWorld(t)
	id := w.open(t, "alice", mcp.Revision2503)
	body := "[" + strings.Repeat(`{"jsonrpc":"2.0","method":"x"},`, 32) + `{"jsonrpc":"2.0","method":"x"}]`
	if got := w.do(t, inSession("POST", id, body)); got.Code != http.StatusBadRequest ||
		stable(t, got.Body) != "DB-REQUEST" {
		t.Errorf("got %d %s, want 400", got.Code, got.Body)
	}
}

// TestTooManySessions shows that one owner's sessions are bounded, that the one longest
// unused goes, and that nobody else's are touched.
func TestTooManySessions(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		other, first := w.open(t, "alice-globex", mcp.Revision2511), w.open(t, "alice", mcp.Revision2511)
		second, colleague := w.open(t, "alice", mcp.Revision2511), w.open(t, "bob", mcp.Revision2511)
		wait(t)
		w.do(t, inSession("POST", first, pingBody))
		for range 999 {
			w.do(t, initialize(mcp.Revision2511))
		}
		for _, check := range []struct {
			name, id, token string
			want            int
		}{{"used since", first, "alice", 200}, {"longest unused", second, "alice", 404}, {
			"colleague",
			colleague, "bob", 200,
		}, {"other tenant", other, "alice-globex", 200}} {
			if got := w.do(t, inSession("POST", check.id, pingBody).as(check.token)); got.Code != check.want {
				t.Errorf("%s: got %d, want %d", check.name, got.Code, check.want)
			}
		}
	})
}

// TestAccept shows which answers a client is taken to understand.
func TestAccept(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		accept string
		status int
		kind   string // of the answer to a call that tells of its progress
	}{
		{"application/json, text/event-stream", 200, "text/event-stream"},
		{"text/event-stream,application/json", 200, "text/event-stream"},
		{"", 200, "text/event-stream"},
		{"*/*", 200, "text/event-stream"},
		{"application/*, text/*;q=0.5", 200, "text/event-stream"},
		{"APPLICATION/JSON; charset=utf-8", 200, "application/json"},
		{"application/json, text/event-stream;q=0", 200, "application/json"},
		{"application/json, text/event-stream; q=0.0", 200, "application/json"},
		{"text/event-stream", 406, "application/json"},
		{"application/json, text/event-stream;charset=utf-8;q=0", 200, "application/json"},
		{"application/json, text/event-stream; Q=0;x=1", 200, "application/json"},
		{"application/json;q=0, */*;q=0", 406, "application/json"},
		{"text/html", 406, "application/json"},
		{"application/jsonp", 406, "application/json"},
	}
	for _, test := range tests {
		got := w.do(t, modernCall("progress").with("Accept", test.accept))
		if got.Code != test.status || got.Header().Get("Content-Type") != test.kind {
			t.Errorf("Accept %q: got %d %s, want %d %s", test.accept, got.Code,
				got.Header().Get("Content-Type"), test.status, test.kind)
		}
	}
}

func TestMediaType(t *testing.T) {
	w := newWorld(t)
	for kind, want := range map[string]int{
		"application/json": 200, "application/json; charset=utf-8": 200,
		"Application/JSON;charset=UTF-8":   200,
		"application/json; charset=utf-16": 415, "application/json, text/plain": 415,
		"application/jsonx":               415,
		"multipart/form-data; boundary=x": 415, "application/json;": 200, ";": 415,
	} {
		if got := w.do(t, modernCall("echo").with("Content-Type", kind)); got.Code != want {
			t.Errorf("Content-Type %q: got %d, want %d", kind, got.Code, want)
		}
	}
}

// FuzzDoor sends bodies to every door: whatever it is, the answer is JSON-RPC or empty,
// and no fault of ours.
func FuzzDoor(f *testing.F) {
	f.Add([]byte(modernCall("echo").body), "2026-07-28", "tools/call", "echo")
	f.Add([]byte(initialize(mcp.Revision2511).body), "", "", "")
	f.Add([]byte("["+pingBody+"]"), "2025-03-26", "", "")
	f.Add(
		[]byte(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7,"arguments":[],"_meta":{}}}`),
		"2025-03-26", "x", "=?base64?_?=")
	w := newWorld(f)
	h, session := w.Handler(), w.open(f, "alice", mcp.Revision2503)
	f.Fuzz(func(t *testing.T, body []byte, revision, method, name string) {
		if bytes.Contains(body, []byte("slow")) || bytes.Contains(body, []byte("listen")) ||
			bytes.Contains(body, []byte(`\u`)) {
			t.Skip("waits for the test")
		}
		m := inSession("POST", session, string(body)).with(mcp.HeaderProtocolVersion,
			revision).with(mcp.HeaderMethod, method).with(mcp.HeaderName, name)
		got := record(h, m.request(t.Context(), ""))
		if got.Code >= 500 {
			t.Errorf("got %d %s", got.Code, got.Body)
		}
		if got.Header().Get("Content-Type") == "application/json" {
			if _, err := mcp.ParseRaw(got.Body.Bytes()); err != nil {
				t.Errorf("got %s: %v", got.Body, err)
			}
		}
	})
}

// TestStreamNamedFirst shows that a client that names event streams before JSON gets its
// results as one.
func TestStreamNamedFirst(t *testing.T) {
	w := newWorld(t)
	for name, m := range map[string]message{
		"modern": modernCall("rich"), "legacy": legacyCall(w.open(t, "alice", mcp.Revision2511), "rich"),
	} {
		got := w.do(t, m.with("Accept", "text/event-stream, application/json"))
		if got.Header().Get("Content-Type") != "text/event-stream" ||
			strings.Count(got.Body.String(), `"result":`) != 1 {
			t.Errorf("%s: got %v %s, want one result in a stream", name, got.Header(), got.Body)
		}
	}
}
