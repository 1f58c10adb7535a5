package server_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
)

// wantRefused checks how many refusals the metrics count for a tenant, "" if it was not
// known, and a code.
func (w *world) wantRefused(t *testing.T, tenant, code string, want float64) {
	t.Helper()
	if got := metricstest.Sum(t, w.metrics, "drawbridge_refusals_total", "tenant", tenant, "reason",
		code); got != want {
		t.Errorf("got %v refusals of %q with %s in the metrics, want %v", got, tenant, code, want)
	}
}

// TestRequestsThatAreTurnedAwayAreCounted sends one beyond the places for requests in
// work, and one after the end.
func TestRequestsThatAreTurnedAwayAreCounted(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.pipe(t, modernCall("slow"))
		synctest.Wait()
		w.do(t, modernCall("echo"))
		w.wantRefused(t, "", "DB-OVERLOAD", 1)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		w.Wait(ctx)
		synctest.Wait()
		w.wantRefused(t, "acme", "DB-STOPPED", 1)
		w.do(t, modernCall("echo"))
		w.wantRefused(t, "", "DB-DRAINING", 1)
	}, func(w *world) { w.config.MaxRequests = 1 })
}

// TestEndsThatAreNotRecordedAreCounted ends a session at its primary and elsewhere while
// nothing can be shared.
func TestEndsThatAreNotRecordedAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := together(t, 2)
		a, b := c.worlds[0], c.worlds[1]
		id := a.open(t, "alice", mcp.Revision2511)
		c.setDown(true)
		wantReplicas(t, "at its primary", a.do(t, inSession("DELETE", id, "")))
		a.wantRefused(t, "acme", "DB-REPLICAS", 1)
		wantReplicas(t, "elsewhere", b.do(t, inSession("DELETE", id, "")))
		a.wantRefused(t, "acme", "DB-REPLICAS", 2)
		b.wantRefused(t, "acme", "DB-REPLICAS", 0)
	})
}

// TestAnswersThatDieWithTheirReplicaAreCounted waits at one replica for the answer of a
// call that runs at another, which dies. However many have the stream, it is one call.
func TestAnswersThatDieWithTheirReplicaAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newChangingFleet(t)
		first := c.worlds[0].hearing(t, legacyCall(c.id, "slow_progress"))
		last := lastID(t, first.text())
		leave(t, first)
		streams := []*listener{c.get(t, 1, last), c.get(t, 2, last)}
		c.hub.Leave(c.worlds[0].config.Others.(*replicatest.Member))
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if told := streams[1].text(); !strings.Contains(told, "DB-REPLICA-GONE") {
			t.Fatalf("the stream has %q, want that the replica is gone", told)
		}
		c.worlds[1].wantRefused(t, "acme", "DB-REPLICA-GONE", 0)
		c.worlds[2].wantRefused(t, "acme", "DB-REPLICA-GONE", 1)
		c.worlds[0].letGo()
		wait(t)
	})
}
