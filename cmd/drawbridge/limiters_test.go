package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// TestEachReplicaCountedForItself shows that what one process takes another has not, of calls as of requests.
func TestEachReplicaCountedForItself(t *testing.T) {
	t.Parallel()
	cfg, ring := &config.Config{Redis: config.Redis{Addresses: []string{redistest.StartOne(t).Address}, Patience: redistest.Patience}}, seal.RandomRing()
	log := slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(t.Context())
	group, ctx := errgroup.WithContext(ctx)
	defer func() {
		stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	}()
	b := ratelimit.Bucket{Key: "a", Group: "acme", Limit: ratelimit.Limit{Rate: 1e-6, Burst: 40}}
	var calls, requests int
	for most := range 2 { // the first takes 30 of 40
		s, err := newSharing(cfg, ring, log, metrics.New(prometheus.NewRegistry()))
		if err != nil {
			t.Fatal(err)
		}
		ofCalls, ofRequests := s.limiters(2, metrics.New(prometheus.NewRegistry()), log)
		group.Go(func() error { return s.store.Run(ctx) })
		group.Go(func() error { return s.leases.Run(ctx) })
		for s.store.Up() != nil {
			<-time.After(time.Millisecond)
		}
		for i := 0; i < 30+most*30; i++ {
			if ofCalls.Take(ctx, b) == nil {
				calls++
			}
			if ofRequests.Take(ctx, b) == nil {
				requests++
			}
		}
	}
	if calls != 40 || requests > 40 || requests < 36 {
		t.Errorf("%d calls and %d requests were allowed, want 40, and of requests those that the first holds fewer", calls, requests)
	}
}

// TestOneReplicaCountsInMemory shows that a gateway without Redis has one limiter, that of its process.
func TestOneReplicaCountsInMemory(t *testing.T) {
	t.Parallel()
	s, err := newSharing(&config.Config{}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	calls, requests := s.limiters(1, nil, nil)
	if _, ok := calls.(*ratelimit.Memory); !ok || calls != requests || s.leases != nil {
		t.Errorf("calls are counted by %T, requests by %T", calls, requests)
	}
}
