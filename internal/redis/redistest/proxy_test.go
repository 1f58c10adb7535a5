package redistest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// TestProxy sends commands through each fault and afterwards.
func TestProxy(t *testing.T) {
	t.Parallel()
	p := redistest.NewProxy(t, redistest.StartOne(t).Address)
	store := redistest.Run(t,
		redis.New(redis.Config{Addresses: []string{p.Address}, Patience: redistest.Patience}))
	get := redis.Command{Name: "GET", Key: redis.CommonKey("x")}
	for name, fault := range map[string]func(){"a delay": func() { p.Delay(time.Hour) }, "a black hole": p.BlackHole, "a cut": p.Cut} {
		if _, err := store.Do(t.Context(), get); err != nil {
			t.Fatalf("before %s: %v", name, err)
		}
		fault()
		ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := store.Do(ctx, get); !errors.Is(err, redis.ErrDown) &&
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v", name, err)
		}
		stop()
		p.Cut() // what is late by an hour does not come
		redistest.WaitDown(t, store)
		p.Heal()
		redistest.WaitUp(t, store)
	}
}
