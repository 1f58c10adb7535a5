package gateway

import (
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
)

// wantRefused checks how many refusals the metrics count with a kind and a reason.
func wantRefused(t *testing.T, metrics prometheus.Gatherer, kind, reason string, want float64) {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := 0.0
	for _, family := range families {
		for _, series := range family.GetMetric() {
			labels := make(map[string]string)
			for _, l := range series.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if family.GetName() == "drawbridge_refusals_total" && labels["kind"] == kind && labels["reason"] == reason {
				got += series.GetCounter().GetValue()
			}
		}
	}
	if got != want {
		t.Errorf("got %v refusals %s with %s in the metrics, want %v", got, kind, reason, want)
	}
}

// TestCallsThatReplicasLostWereNotCounted repeats a parked call while its home cannot be asked, and when that is gone. No
// metric told the first from a server that is down, and the second from one that was lost.
func TestCallsThatReplicasLostWereNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d *deaf
		p := newPair(t, func(home bool, cfg *Config) {
			if !home {
				d = &deaf{Others: cfg.Others}
				cfg.Others = d
			}
		})
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
