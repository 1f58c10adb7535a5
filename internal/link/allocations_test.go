//go:build !race

package link_test

import (
	"io"
	"net/http"
	"runtime"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/link"
)

// forwardAllocations is how many times memory may be allocated for one request that is
// forwarded, at both ends: what was measured and a sixth. A machine that is busy makes
// some more. The race detector allocates too, so the test runs without.
const forwardAllocations = 20

// TestAllocationsOfAForward bounds what a hop costs in allocations.
func TestAllocationsOfAForward(t *testing.T) {
	_, a, _ := pair(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	request := link.Request{
		Method: "POST", Target: "/mcp", Body: []byte("body"), Remote: "192.0.2.1", ID: "r1",
		Header: http.Header{"Authorization": {"Bearer t"}, "Content-Type": {"application/json"}},
	}
	forward := func() {
		answer, err := a.Forward(t.Context(), "b", request)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "body" {
			t.Fatalf("got %q, %v", body, err)
		}
		_ = answer.Body.Close()
	}
	const runs = 1000
	least := uint64(1 << 62) // of five rounds the cheapest counts: the collector allocates now and then
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			forward()
		}
		runtime.ReadMemStats(&after)
		least = min(least, after.Mallocs-before.Mallocs)
	}
	got := float64(least) / runs
	t.Logf("%.1f allocations a forward", got)
	if got > forwardAllocations {
		t.Errorf("got %.1f allocations a forward, want at most %d", got, forwardAllocations)
	}
}
