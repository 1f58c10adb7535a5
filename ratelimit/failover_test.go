package ratelimit_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// through takes at three replicas, from a bucket that gains next to nothing, before,
// while and after a fault happens. It returns how many tokens were taken in all.
func through(t *testing.T, server *redistest.Server, b ratelimit.Bucket, fault func(one *redis.Store)) int {
	t.Helper()
	const replicas = 3
	ctx, stop := context.WithCancel(t.Context())
	var got atomic.Int64
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	var stores []*redis.Store
	for i := range replicas {
		stores = append(stores, server.Store(t))
		limiter := ratelimit.NewRedis(ratelimit.RedisConfig{
			Store: stores[i], Replica: fmt.Sprint(i),
			Replicas: replicas,
		})
		group.Go(func() {
			for ctx.Err() == nil {
				if exceeded(t, limiter, b) == nil {
					got.Add(1)
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	counts := func(enough func(n int64) bool) {
		t.Helper()
		redistest.Wait(t, func() error {
			if n := got.Load(); !enough(n) {
				return fmt.Errorf("%d tokens were taken", n)
			}
			return nil
		})
	}
	counts(func(n int64) bool { return n >= int64(b.Limit.Burst)/4 })
	fault(stores[0])
	for _, s := range stores {
		redistest.WaitUp(t, s)
	}
	last, same := int64(0), 0
	counts(func(n int64) bool { // long after the last one was taken
		same++
		if n != last {
			last, same = n, 0
		}
		return same == 200
	})
	return int(got.Load())
}

// scarce is a bucket that is empty after 400.
func scarce() ratelimit.Bucket {
	return ratelimit.Bucket{
		Key: "tenant", Group: "acme", Sharer: "alice",
		Limit: ratelimit.Limit{Rate: 1e-6, Burst: 400},
	}
}

// TestAFailoverAllowsThreeBurstsAtMost kills the master of a sentinel while tokens are
// taken. Each replica allows its part meanwhile, together one burst, and what the new
// master does not know is one more at most.
func TestAFailoverAllowsThreeBurstsAtMost(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "10")
	got := through(t, w.Sentinel, scarce(), func(*redis.Store) { w.FailOver(t) })
	if most := 3 * scarce().Limit.Burst; got > most {
		t.Errorf("%d tokens were taken, want at most %d", got, most)
	}
	t.Logf("%d tokens of %d", got, scarce().Limit.Burst)
}

// TestAMovedSlotAllowsNoMoreThanTheBucket moves the bucket to another node of a cluster,
// and has the nodes forget their scripts: what was taken stays so, and nobody decides by
// itself.
func TestAMovedSlotAllowsNoMoreThanTheBucket(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	got := through(t, c, scarce(), func(*redis.Store) {
		c.Exec(t, "SCRIPT", "FLUSH")
		c.Move(t, "db2:{acme}:")
	})
	if most := scarce().Limit.Burst; got > most {
		t.Errorf("%d tokens were taken, want at most %d", got, most)
	}
}

// TestAFaultAllowsTwoBurstsAtMost makes each fault while tokens are taken.
func TestAFaultAllowsTwoBurstsAtMost(t *testing.T) {
	t.Parallel()
	for name, fault := range redistest.Faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.StartOne(t)
			got := through(t, server, scarce(), func(one *redis.Store) { fault(t, server, one) })
			if most := 2 * scarce().Limit.Burst; got > most { // nothing that was taken is forgotten
				t.Errorf("%d tokens were taken, want at most %d", got, most)
			}
		})
	}
}
