package server_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/server/once"
)

// flying opens two replicas that know by a real Redis which calls are in flight at the other.
func flying(t *testing.T) (a, b *world, redis *redistest.Server) {
	t.Helper()
	redis = redistest.Start(t)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() { stop(); running.Wait() })
	a, b = replicas(t, func(w *world) {
		w.config.Flights = once.NewFlights(redis.Store(t))
		running.Go(func() { _ = w.config.Flights.Run(ctx) })
	})
	return a, b, redis
}

// TestACopyAtAnotherReplicaRan sends a call of a session to two replicas, as a load balancer does that gave up on the
// first too early.
func TestACopyAtAnotherReplicaRan(t *testing.T) {
	t.Parallel()
	a, b, _ := flying(t)
	for what, revision := range map[string]string{"alone": mcp.Revision2511, "in a batch": mcp.Revision2503} {
		id := a.open(t, "alice", revision)
		m, status := legacyCall(id, "slow"), http.StatusBadRequest
		if revision == mcp.Revision2503 {
			m.body, status = "["+m.body+"]", http.StatusOK
		}
		before, _ := a.counts()
		first := a.begins(t.Context(), m)
		eventually(t, func() bool { n, _ := a.counts(); return n == before+1 })
		for _, w := range []*world{b, a} {
			if got := w.do(t, m); got.Code != status || !strings.Contains(got.Body.String(), "this id is in use by a request in flight") {
				t.Errorf("%s: the copy got %d %s, want %d", what, got.Code, got.Body, status)
			}
		}
		ping := inSession("POST", id, pingBody)
		if got := b.do(t, ping); got.Code != http.StatusOK {
			t.Errorf("%s: a ping of that id got %d", what, got.Code)
		}
		other := strings.Replace(legacyCall(id, "rich").body, `"id":1`, `"id":2`, 1)
		if got := b.do(t, inSession("POST", id, other)); got.Code != http.StatusOK {
			t.Errorf("%s: another id got %d %s", what, got.Code, got.Body)
		}
		a.letGo()
		if got := <-first; !strings.Contains(got.Body.String(), "late") {
			t.Errorf("%s: the first got %s, want the result", what, got.Body)
		}
		eventually(t, func() bool { return b.do(t, legacyCall(id, "rich")).Code == http.StatusOK })
	}
	if n, _ := b.counts(); n != 0 {
		t.Errorf("copies ran %d times", n)
	}
}

// TestCallsOfSessionsGoOnWithoutRedis stops Redis: within a replica copies are found as ever.
func TestCallsOfSessionsGoOnWithoutRedis(t *testing.T) {
	t.Parallel()
	a, _, redis := flying(t)
	id := a.open(t, "alice", mcp.Revision2511)
	redis.Stop()
	first := a.begins(t.Context(), legacyCall(id, "slow"))
	eventually(t, func() bool { n, _ := a.counts(); return n == 1 })
	if got := a.do(t, legacyCall(id, "rich")); got.Code != http.StatusBadRequest {
		t.Errorf("a copy at the same replica: got %d %s, want 400", got.Code, got.Body)
	}
	a.letGo()
	if got := <-first; got.Code != http.StatusOK || !strings.Contains(got.Body.String(), "late") {
		t.Errorf("got %d %s, want the result", got.Code, got.Body)
	}
}
