package once

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// TestALossWhileAClaimIsRenewedCounts notices a loss of what Redis had while a claim is
// just being renewed: that is renewed once more, since nobody knows which of the two came
// first. So is one whose renewal fails after a loss.
func TestALossWhileAClaimIsRenewedCounts(t *testing.T) {
	t.Parallel()
	var s *Redis
	var losing atomic.Bool
	var hub replicatest.Hub
	cfg := redistest.Start(t).Config()
	cfg.Called = func(string, redis.Outcome, time.Duration) {
		if losing.Load() {
			s.reclaim()
		}
	}
	s = NewRedis(RedisConfig{
		Store: redis.New(cfg), Seal: seal.RandomRing(), Others: hub.Join(), Quota: share.New(128 << 20),
	})
	redistest.Run(t, s.config.Store)
	redistest.WaitUp(t, s.config.Store)
	user := share.User{TenantID: "acme", Issuer: "i", Subject: "alice"}
	if _, _, err := s.Begin(t.Context(), Request{User: user}); err != nil {
		t.Fatal(err)
	}
	due := s.due(time.Now().Add(Retention))
	if len(due) != 1 {
		t.Fatalf("%d claims are due, want 1", len(due))
	}
	losing.Store(true)
	s.tend(t.Context(), due[0])
	if len(s.due(time.Now())) != 1 {
		t.Error("the claim is not renewed again")
	}
	losing.Store(false)
	s.tend(t.Context(), due[0])
	if n := len(s.due(time.Now())); n != 0 {
		t.Errorf("%d claims are due after it was renewed, want none", n)
	}
	s.reclaim()
	over, stop := context.WithCancel(t.Context())
	stop()
	s.tend(over, due[0])
	if len(s.due(time.Now())) != 1 {
		t.Error("the claim is not renewed again after that failed")
	}
}
