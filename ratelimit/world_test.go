package ratelimit_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// world is a server on which replicas share limits, in a time that a test chooses.
type world struct {
	server *redistest.Server
	store  *redis.Store
	admin  *redis.Store // of a user that may do everything
	mu     sync.Mutex   // held during a trip
	trips  chan func()
	over   chan struct{} // a value for each trip that is over
	count  int           // of replicas
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{server: redistest.Start(t), trips: make(chan func()), over: make(chan struct{})}
	w.store, w.admin = w.server.Store(t), w.server.Admin(t)
	var group sync.WaitGroup
	group.Go(func() {
		for f := range w.trips {
			f()
			w.over <- struct{}{}
		}
	})
	t.Cleanup(func() { close(w.trips); group.Wait() })
	return w
}

// away runs f on a goroutine that is in no bubble. In a bubble, what waits for the
// network would be given deadlines of a time that is not that of the network.
func (w *world) away(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trips <- f
	<-w.over
}

// replica returns a limiter on the server, of a replica that no other one is, to which it
// is the time of the bubble.
func (w *world) replica(replicas int) *ratelimit.Redis {
	w.mu.Lock()
	w.count++
	name := fmt.Sprint("replica ", w.count)
	w.mu.Unlock()
	return w.named(name, replicas)
}

// named is replica with that name.
func (w *world) named(name string, replicas int) *ratelimit.Redis {
	return ratelimit.NewRedisAt(ratelimit.RedisConfig{Store: w.store, Replica: name, Replicas: replicas},
		time.Now, w.away)
}
