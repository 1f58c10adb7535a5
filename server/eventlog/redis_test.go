package eventlog_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// house has replicas with one server.
type house struct {
	server  *redistest.Server
	ring    *seal.Ring
	hub     replicatest.Hub
	refused atomic.Int64 // values of the server that were not used
}

func newHouse(t *testing.T) *house {
	t.Helper()
	return &house{server: redistest.Start(t), ring: seal.RandomRing()}
}

// newStore returns a way to the server, which does not run yet.
func (h *house) newStore() *redis.Store {
	cfg := h.server.Config()
	cfg.Refused = func() { h.refused.Add(1) }
	return redis.New(cfg)
}

// resident is one replica.
type resident struct {
	*eventlog.Redis

	store  *redis.Store
	admin  *redis.Store // of a user that may do everything
	member *replicatest.Member
}

// join adds a replica that runs until the test ends.
func (h *house) join(t *testing.T, change ...func(*eventlog.RedisConfig)) *resident {
	t.Helper()
	return h.joinBy(t, h.newStore(), change...)
}

// joinBy is join for a replica that has its own way to the server, which does not run
// yet.
func (h *house) joinBy(t *testing.T, store *redis.Store, change ...func(*eventlog.RedisConfig)) *resident {
	t.Helper()
	r := &resident{store: store, admin: h.server.Admin(t), member: h.hub.Join()}
	cfg := eventlog.RedisConfig{
		Store: r.store, Seal: h.ring, Others: r.member,
	}
	for _, f := range change {
		f(&cfg)
	}
	r.Redis = eventlog.NewRedis(cfg)
	redistest.Run(t, r.store)
	lifetimetest.Run(t, r.Run)
	return r
}

// tester is what testing and rapid have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// eventually waits until something is so.
func eventually(t tester, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); {
		if time.Since(began) > 3*time.Minute {
			t.Fatalf("not so within three minutes: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

func TestRedis(t *testing.T) {
	t.Parallel()
	suite(t, func(t *testing.T) eventlog.Log { return newHouse(t).join(t) })
}

func BenchmarkRedisAppend(b *testing.B) {
	h := &house{server: redistest.Start(b), ring: seal.RandomRing()}
	store := redis.New(h.server.Config())
	l := eventlog.NewRedis(eventlog.RedisConfig{
		Store: store, Seal: h.ring, Others: h.hub.Join(),
	})
	redistest.Run(b, store)
	if _, err := l.Begin(b.Context(), of("s"), "p1"); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, 200)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Append(b.Context(), of("s"), "p1", data, false); err != nil {
			b.Fatal(err)
		}
	}
}
