package ratelimit_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// through takes at three replicas, from a bucket that gains next to nothing, before, while and after a fault happens. It
// returns how many tokens were taken in all.
func through(t *testing.T, server *redistest.Server, leased bool, b ratelimit.Bucket, fault func()) int {
	t.Helper()
	const replicas = 3
	ctx, stop := context.WithCancel(t.Context())
	var got atomic.Int64
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	var limiters []ratelimit.Limiter
	for i := range replicas {
		shared := ratelimit.NewRedis(ratelimit.RedisConfig{Store: server.Store(t), Replicas: replicas})
		limiters = append(limiters, shared)
		if leased {
			leases := ratelimit.NewLeases(shared, fmt.Sprint(i))
			group.Go(func() { _ = leases.Run(ctx) })
			limiters[i] = leases
		}
		group.Go(func() {
			for ctx.Err() == nil {
				if exceeded(t, limiters[i], b) == nil {
					got.Add(1)
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Millisecond):
				}
			}
		})
	}
	redistest.Wait(t, func() error { return atLeast(&got, int64(b.Limit.Burst)/4) })
	fault()
	last := int64(0)
	redistest.Wait(t, func() error { // those who take are refused, and Redis decides
		before := last
		if last = got.Load(); last != before {
			return fmt.Errorf("%d tokens were taken, and still more", last)
		}
		return nil
	})
	return int(got.Load())
}

func atLeast(n *atomic.Int64, want int64) error {
	if got := n.Load(); got < want {
		return fmt.Errorf("%d were taken, want %d", got, want)
	}
	return nil
}
