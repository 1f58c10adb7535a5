package gateway

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
)

// wantRefused checks how many refusals the metrics count with a kind and a reason.
func wantRefused(t *testing.T, metrics prometheus.Gatherer, kind, reason string, want float64) {
	t.Helper()
	if got := metricstest.Sum(t, metrics, "drawbridge_refusals_total", "kind", kind, "reason",
		reason); got != want {
		t.Errorf("got %v refusals %s with %s in the metrics, want %v", got, kind, reason, want)
	}
}

// TestCallsThatReplicasLoseAreCounted repeats a parked call when its home is gone. A
// metric tells that from a server that is lost.
func TestCallsThatReplicasLoseAreCounted(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.parks(done)
	r := ask(mcp.MethodToolsCall, subjects[0].params)
	again := repeat(r, p.a.asked(t, r))
	p.hub.Leave(p.memberA)
	if _, failure := p.b.handle(t, again); stable(failure) != "DB-REPLICA-LOST" {
		t.Fatalf("got %v, want DB-REPLICA-LOST", failure)
	}
	wantRefused(t, p.b.metrics, "unavailable", "DB-REPLICA-LOST", 1)
	if refusals(t, p.a) != 0 {
		t.Error("the home counts what it has never seen")
	}
}
