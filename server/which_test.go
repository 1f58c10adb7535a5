package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestCallsSayWhichClientOfAUserMadeThem calls with one token in two sessions, and
// without one.
func TestCallsSayWhichClientOfAUserMadeThem(t *testing.T) {
	w := newWorld(t)
	var last string
	w.registry.Replace(registry.Source{Name: "box", Tools: []registry.Offer{{
		Definition: object(`{"name":"which","inputSchema":{"type":"object"}}`), Timeout: time.Minute,
		Call: func(_ context.Context, c *registry.Call) (mcp.Object, error) {
			last = c.Client
			return textResult("called"), nil
		},
	}}})
	client := func(m message) string {
		t.Helper()
		last = ""
		if got := w.do(t, m); got.Code != http.StatusOK || last == "" {
			t.Fatalf("got %d %s, and client %q", got.Code, got.Body, last)
		}
		return last
	}
	one, other := w.open(t, "alice", mcp.Revision2511), w.open(t, "alice", mcp.Revision2511)
	first, second := client(legacyCall(one, "which")), client(legacyCall(other, "which"))
	named := modernCall("which")
	named.body = strings.Replace(named.body, `"_meta":{`, `"_meta":{"`+mcp.MetaClientInfo+
		`":{"name":"editor","version":"1"},`, 1)
	modern := client(named)
	if first == second || modern == first || modern == second {
		t.Errorf("got %q, %q and %q, want three clients", first, second, modern)
	}
	if again := client(legacyCall(one, "which")); again != first {
		t.Errorf("the first again: got %q, want %q", again, first)
	}
	if again := client(named); again != modern {
		t.Errorf("the one without a session again: got %q, want %q", again, modern)
	}
}
