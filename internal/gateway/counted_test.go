package gateway

import (
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
)

// wantRefused checks how many refusals the metrics count with a kind and a reason.
func wantRefused(t *testing.T, metrics prometheus.Gatherer, kind, reason string, want float64) {
	t.Helper()
	if got := metricstest.Sum(t, metrics, "drawbridge_refusals_total", "kind", kind, "reason", reason); got != want {
		t.Errorf("got %v refusals %s with %s in the metrics, want %v", got, kind, reason, want)
	}
}

// TestCallsThatReplicasLostWereNotCounted repeats a parked call while its home cannot be asked, and when that is gone. No
// metric told the first from a server that is down, and the second from one that was lost.
func TestCallsThatReplicasLostWereNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, d := newDeafPair(t, false)
		p.parks(1, done)
		r := askAlice(subjects[0].params)
		again := repeat(r, p.a.asked(t, r))
		d.down.Store(true)
		if _, failure := p.b.handle(t, again); stable(failure) != "DB-REPLICAS" {
			t.Fatalf("got %v, want DB-REPLICAS", failure)
		}
		wantRefused(t, p.b.metrics, "unavailable", "DB-REPLICAS", 1)
		d.down.Store(false)
		p.hub.Leave(p.memberA)
		if _, failure := p.b.handle(t, again); stable(failure) != "DB-REPLICA-LOST" {
			t.Fatalf("got %v, want DB-REPLICA-LOST", failure)
		}
		wantRefused(t, p.b.metrics, "unavailable", "DB-REPLICA-LOST", 1)
		if refusals(t, p.a) != 0 {
			t.Error("the home counts what it has never seen")
		}
	})
}
