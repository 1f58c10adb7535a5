package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// TestTraceparentPassesAsItCame calls in both eras. What has not the form of a
// traceparent goes no further, since it would be a header of the client's choice at a
// server.
func TestTraceparentPassesAsItCame(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	w := newWorld(t)
	var got credential.Trace
	w.registry.Replace(registry.Source{Name: "box", Tools: []registry.Offer{{
		Definition: object(`{"name":"traced","inputSchema":{"type":"object"}}`), Timeout: time.Minute,
		Call: func(_ context.Context, c *registry.Call) (mcp.Object, error) {
			got = c.Trace
			return textResult("called"), nil
		},
	}}})
	session := w.open(t, "alice", mcp.Revision2511)
	for sent, want := range map[string]string{
		good: good,
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00": "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "",
		strings.ToUpper(good):     "",
		good + "-" + good:         "",
		good[:54]:                 "",
		good[:54] + " ":           "",
		good[:54] + "\x80":        "",
		good[:2] + "_" + good[3:]: "",
		"":                        "",
	} {
		for era, call := range map[string]message{
			"modern": modernCall("traced"), "legacy": legacyCall(session, "traced"),
		} {
			got = credential.Trace{}
			answer := w.do(t, call.with("Traceparent", sent))
			if answer.Code != http.StatusOK || got.Parent != want || got.ID != answer.Header().Get("X-Request-Id") {
				t.Errorf("%s with %q: got %d and %+v, want %q and the request's id", era, sent, answer.Code, got, want)
			}
		}
	}
}

// TestTraceparentPassesAsItCameAtAnotherReplica calls in a session that another replica
// leads, which makes the call: neither makes a span of its own.
func TestTraceparentPassesAsItCameAtAnotherReplica(t *testing.T) {
	const sent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		var got credential.Trace
		a.registry.Replace(registry.Source{Name: "box", Tools: []registry.Offer{{
			Definition: object(`{"name":"traced","inputSchema":{"type":"object"}}`), Timeout: time.Minute,
			Call: func(_ context.Context, c *registry.Call) (mcp.Object, error) {
				got = c.Trace
				return textResult("called"), nil
			},
		}}})
		session := a.open(t, "alice", mcp.Revision2511)
		answer := b.do(t, legacyCall(session, "traced").with("Traceparent", sent))
		if answer.Code != http.StatusOK || got.Parent != sent || got.ID != answer.Header().Get("X-Request-Id") {
			t.Errorf("got %d and %+v, want %q and the request's id", answer.Code, got, sent)
		}
	})
}
