package server_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// recording puts a desk before the world's gateway that keeps what the door puts on
// record.
func (w *world) recording() (taken func() []audit.Record) {
	var mu sync.Mutex // guards kept
	var kept []audit.Record
	w.behind(&fakeDesk{refuse: func(r audit.Record) {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, r)
	}})
	return func() []audit.Record {
		mu.Lock()
		defer mu.Unlock()
		all := kept
		kept = nil
		return all
	}
}

// TestRefusalsAreOnRecord refuses an admitted caller in every way that the door has: one
// line each.
func TestRefusalsAreOnRecord(t *testing.T) {
	w := newWorld(t, func(w *world) { w.config.MaxBody = 2000 })
	taken := w.recording()
	id, batching := w.open(t, "alice", mcp.Revision2511), w.open(t, "alice", mcp.Revision2503)
	foreign := modernCall("echo")
	foreign.path = "/t/globex/mcp"
	big := modernCall("echo").with("Transfer-Encoding", "chunked")
	big.body += strings.Repeat(" ", 2000)
	for _, test := range []struct {
		name            string
		m               message
		outcome, reason string
	}{
		{"unknown session", inSession("POST", "unknown", pingBody), "unknown", "DB-SESSION"},
		{"unknown session to GET", inSession("GET", "unknown", ""), "unknown", "DB-SESSION"},
		{"unknown session to DELETE", inSession("DELETE", "unknown", ""), "unknown", "DB-SESSION"},
		{"unknown session over SSE", message{
			method: "POST", path: "/messages?sessionId=unknown",
			token: "alice", body: pingBody,
		}, "unknown", "DB-SESSION"},
		{
			"no session",
			message{method: "POST", path: "/mcp", token: "alice", body: pingBody},
			"invalid_request", "DB-SESSION-MISSING",
		},
		{
			"unknown event", inSession("GET", id, "").with(mcp.HeaderLastEventID, "p9-9"), "invalid_request",
			"DB-EVENT",
		},
		{"another tenant's path", foreign, "unknown", "DB-NOT-FOUND"},
		{
			"HTTP method",
			message{method: "PUT", path: "/mcp", token: "alice"},
			"invalid_request",
			"DB-HTTP-METHOD",
		},
		{"accept", modernCall("echo").with("Accept", "text/html"), "invalid_request", "DB-ACCEPT"},
		{
			"media type", modernCall("echo").with("Content-Type", "text/plain"), "invalid_request",
			"DB-MEDIA-TYPE",
		},
		{"body size", big, "invalid_request", "DB-BODY-SIZE"},
		{"parse", inSession("POST", id, "{"), "invalid_request", "DB-PARSE"},
		{"header", modernCall("echo").with(mcp.HeaderName, "other"), "invalid_request", "DB-HEADER"},
		{
			"revision", modernCall("echo").with(mcp.HeaderProtocolVersion, "2099-01-01"), "invalid_request",
			"DB-HEADER",
		},
		{
			"batch in another revision", inSession("POST", id, "["+pingBody+"]"), "invalid_request",
			"DB-REQUEST",
		},
		{
			"same id twice in a batch", inSession("POST", batching, "["+pingBody+","+pingBody+"]"),
			"invalid_request", "DB-REQUEST",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			taken()
			r := test.m.request(t.Context(), "")
			if test.m.headers["Transfer-Encoding"] != "" {
				r.ContentLength = -1
			}
			got := record(w.Handler(), r)
			lines := taken()
			if len(lines) != 1 {
				t.Fatalf("got %d with %d lines on record, want one: %+v", got.Code, len(lines), lines)
			}
			line := lines[0]
			if line.Outcome != test.outcome || line.Reason != test.reason || line.TenantID != "acme" ||
				line.Subject != "alice" || line.RequestID == "" {
				t.Errorf("got %+v, want %s for %s of alice of acme", line, test.outcome, test.reason)
			}
			if test.reason == "DB-HEADER" && line.Item != "echo" {
				t.Errorf("got the item %q, want the tool that was called", line.Item)
			}
		})
	}
}

// TestRefusedStreamsAreOnRecord opens streams beyond the places of server and tenant, and
// while the server stops.
func TestRefusedStreamsAreOnRecord(t *testing.T) {
	w := newWorld(t, func(w *world) { w.config.MaxStreams = 1 })
	taken := w.recording()
	base := w.serve(t)
	call(t.Context(), t, base, modernListen().as("poor"))
	want := func(m message, reason string) {
		t.Helper()
		w.do(t, m)
		if got := taken(); len(got) != 1 || got[0].Outcome != "limited" || got[0].Reason != reason {
			t.Errorf("got %+v, want one line of outcome limited for %s", got, reason)
		}
	}
	want(modernListen(), "DB-OVERLOAD-STREAMS")
	w.EndStreams()
	want(message{method: "GET", path: "/sse", token: "alice"}, "DB-DRAINING")
}

// TestStrangersFillNoRecord shows that a path that is not served leaves no line, whoever
// asks.
func TestStrangersFillNoRecord(t *testing.T) {
	w := newWorld(t)
	taken := w.recording()
	for _, token := range []string{"", "forged", "alice"} {
		if got := w.do(t, message{
			method: "GET", path: "/nowhere",
			token: token,
		}); got.Code != http.StatusNotFound {
			t.Errorf("got %d, want 404", got.Code)
		}
	}
	if got := taken(); len(got) != 0 {
		t.Errorf("got %+v, want nothing on record", got)
	}
}
