package allot_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/allot"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// TestReplicasComeAndGo runs two replicas, then five, one, and three, as an autoscaler
// does, while each takes what it can get. Together they never have more than the tenant,
// and as soon as the blocks of those that left are over, all of it.
func TestReplicasComeAndGo(t *testing.T) {
	t.Parallel()
	store := redistest.Start(t).Store(t)
	const limit = 20
	var running []*holder
	sum := func() (n int64) {
		for _, h := range running {
			n += h.taken.Load()
		}
		return n
	}
	began := 0
	for _, size := range []int{2, 5, 1, 3} {
		for len(running) < size {
			began++
			running = append(running, join(t, store, fmt.Sprint(began), 5, limit))
		}
		for _, h := range running[size:] {
			h.die()
			h.taken.Store(0)
		}
		running = running[:size]
		until(t, fmt.Sprintf("%d replicas have all places, each some", size), func() bool {
			for _, h := range running {
				if h.take(t.Context()); h.taken.Load() > limit/int64(size) { // a call ends now and then
					h.give()
				}
			}
			if n := sum(); n > limit {
				t.Fatalf("%d places of %d are taken by %d replicas", n, limit, size)
			}
			few := slices.ContainsFunc(running,
				func(h *holder) bool { return h.taken.Load() < limit/int64(size) })
			return !few
		})
	}
	if slots := running[0].Here(allot.Calls, tenant, limit); slots < limit/3 {
		t.Errorf("at the end one of three has %d places of %d", slots, limit)
	}
}
