package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

const withProgress = `{"jsonrpc":"2.0","id":7,"method":"tools/call",` +
	`"params":{"name":"progress","arguments":{"text":"x"},"_meta":{"progressToken":1}}}`

// TestNothingIsKeptOfEndedSessions ends sessions of which Redis has a record and events:
// one by its client, with a stream at another replica, and one by eviction. The events of
// the first stayed in Redis for their whole age.
func TestNothingIsKeptOfEndedSessions(t *testing.T) {
	t.Parallel()
	server, w, _ := onRedis(t, 2, bounded(1, 1))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	kept := func() string { return server.Exec(t, "KEYS", "db2:{acme}:*") }

	evicted := w[0].openAsking(t, mcp.Revision2511)
	if got := w[1].do(t, inSession("POST", evicted, withProgress)); !strings.Contains(got.Body.String(), "id: p") {
		t.Fatalf("got %s, want a stream with ids", got.Body)
	}
	if keys := kept(); !strings.Contains(keys, ":session:") || !strings.Contains(keys, ":stream:p") {
		t.Fatalf("Redis has %q of an open session", keys)
	}
	id := w[0].openAsking(t, mcp.Revision2511)
	eventually(t, func() bool {
		keys := kept()
		return !strings.Contains(keys, ":stream:") && strings.Count(keys, ":session:") == 1
	})

	wantStatus(t, "a ping", w[0].do(t, inSession("POST", id, pingBody)), http.StatusOK)
	stream := call(ctx, t, w[1].serve(t), inSession("GET", id, ""))
	stream.until(t, "id: g")
	if keys := kept(); !strings.Contains(keys, ":stream:g") {
		t.Fatalf("Redis has %q of a session with a stream", keys)
	}
	wantStatus(t, "the end", w[1].do(t, inSession("DELETE", id, "")), http.StatusNoContent)
	for stream.line(t) != "" { // until it ends
	}
	eventually(t, func() bool { return kept() == "" })
}
