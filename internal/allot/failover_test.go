package allot_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// round takes and gives back slots at all replicas, several at once, and returns how
// many were taken at once at most.
func round(t *testing.T, holders []*holder) int64 {
	t.Helper()
	var sum, most atomic.Int64
	var all sync.WaitGroup
	for _, h := range holders {
		for range 10 {
			all.Go(func() {
				for range 50 {
					if !h.take(t.Context()) {
						<-time.After(time.Millisecond)
						continue
					}
					now := sum.Add(1)
					for before := most.Load(); now > before &&
						!most.CompareAndSwap(before, now); before = most.Load() {
					}
					<-time.After(time.Millisecond)
					sum.Add(-1)
					h.give()
				}
			})
		}
	}
	all.Wait()
	return most.Load()
}

// through takes slots before, while and after a fault happens. Meanwhile each replica
// may give out its share besides what is taken elsewhere, afterwards the limit holds
// again.
func through(t *testing.T, server *redistest.Server, fault func()) {
	t.Helper()
	const limit = 18
	var holders []*holder
	for _, self := range []string{"a", "b", "c"} {
		holders = append(holders, join(t, server.Store(t), self, 3, limit))
	}
	if most := round(t, holders); most > limit {
		t.Errorf("before: %d places of %d", most, limit)
	}
	over := make(chan struct{})
	go func() { defer close(over); fault() }()
	for done := false; !done; {
		select {
		case <-over:
			done = true
		default:
		}
		if most := round(t, holders); most > 2*limit {
			t.Errorf("meanwhile: %d places of %d, want at most twice as many", most, limit)
		}
	}
	for _, h := range holders {
		h.Recheck()
	}
	until(t, "the limit holds again, and all of it is given out", func() bool {
		most := round(t, holders)
		return most <= limit && most > limit/3*2
	})
}

// TestPlacesThroughAFailover kills the master of a sentinel while slots are taken.
func TestPlacesThroughAFailover(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "10")
	through(t, w.Sentinel, func() { w.FailOver(t) })
}

// TestPlacesInACluster moves the blocks to another node while slots are taken.
func TestPlacesInACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	through(t, c, func() {
		c.Exec(t, "SCRIPT", "FLUSH")
		c.Move(t, "db2:{acme}:")
		c.Exec(t, "CLIENT", "KILL", "TYPE", "normal")
	})
}
