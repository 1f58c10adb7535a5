package redis_test

import (
	"errors"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

func TestRoomIsThatOfTheMasters(t *testing.T) {
	t.Parallel()
	const most = 64 << 20
	for name, c := range map[string]struct {
		start func() *redis.Store
		want  int64
	}{
		"one server": {func() *redis.Store {
			return redistest.StartOne(t, "--maxmemory", "64mb").Store(t)
		}, most},
		"a cluster": {func() *redis.Store {
			return redistest.StartCluster(t, "--maxmemory", "64mb").Store(t)
		}, 3 * most},
		"a master with its sentinel": {func() *redis.Store {
			return redistest.Run(t, redis.New(redis.Config{
				Addresses: []string{redistest.StartWatched(t, "--maxmemory", "64mb").Sentinel.Address},
				Master:    redistest.MasterName, Patience: redistest.Patience,
			}))
		}, most},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			use, err := c.start().MemoryUse(t.Context())
			if err != nil || use.Most != c.want || use.Used <= 0 || use.Used > c.want || use.Evicts {
				t.Errorf("got %+v, %v; want %d bytes at most and some used", use, err, c.want)
			}
		})
	}
	evicting := redistest.StartOne(t, "--maxmemory-policy", "allkeys-lru").Store(t)
	if use, err := evicting.MemoryUse(t.Context()); err != nil || !use.Evicts || use.Most != 0 {
		t.Errorf("of a server that evicts: %+v, %v", use, err)
	}
}

func TestRoomNeedsARight(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	store := server.Store(t)
	server.Exec(t, "ACL", "SETUSER", "default", "-info")
	if _, err := store.MemoryUse(t.Context()); !errors.Is(err, redis.ErrDenied) {
		t.Errorf("got %v, want ErrDenied", err)
	}
	if err := store.Up(); err != nil {
		t.Errorf("a right that is missing says nothing of the server: %v", err)
	}
}
