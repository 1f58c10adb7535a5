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

// TestReplicasCountTogether shows that what one process takes another has not.
func TestReplicasCountTogether(t *testing.T) {
	t.Parallel()
	cfg, ring := &config.Config{Redis: config.Redis{
		Addresses: []string{redistest.StartOne(t).Address},
		Patience:  redistest.Patience,
	}}, seal.RandomRing()
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
	allowed := 0
	for most := range 2 { // the first takes 30 of 40
		s, err := newSharing(cfg, ring, log, metrics.New(prometheus.NewRegistry()))
		if err != nil {
			t.Fatal(err)
		}
		limiter := s.limiter(2, metrics.New(prometheus.NewRegistry()))
		group.Go(func() error { return s.store.Run(ctx) })
		for s.store.Up() != nil {
			<-time.After(time.Millisecond)
		}
		for i := 0; i < 30+most*30; i++ {
			if limiter.Take(ctx, b) == nil {
				allowed++
			}
		}
	}
	if allowed > 40 || allowed < 36 {
		t.Errorf("%d were allowed, want 40, or fewer by those that the first holds ahead", allowed)
	}
}

// TestOneReplicaCountsInMemory shows that a gateway without Redis has one limiter, that
// of its process.
func TestOneReplicaCountsInMemory(t *testing.T) {
	t.Parallel()
	s, err := newSharing(&config.Config{}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	limiter := s.limiter(1, nil)
	if _, ok := limiter.(*ratelimit.Memory); !ok {
		t.Errorf("limits are counted by %T", limiter)
	}
}
