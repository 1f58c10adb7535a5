package legacy

import (
	"context"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// background runs what the server does beside the requests of clients, mostly to tell
// other replicas something. Each function runs in a goroutine of its own, and whoever
// begins it bounds how many there are and how long each takes. Run ends and waits for
// those that are left. A panic ends only the function that panicked. It is safe for
// concurrent use.
type background struct {
	exchange.Guard

	running sync.WaitGroup
	mu      sync.Mutex // guards the fields below
	over    bool
	newest  uint64
	stops   map[uint64]context.CancelFunc // of those that run
}

// begin runs f with a context that has the values of ctx, and that ends when end is called
// instead of with ctx. After end it does nothing: nobody is served any more.
func (b *background) begin(ctx context.Context, f func(ctx context.Context)) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		stop()
		return
	}
	if b.stops == nil {
		b.stops = make(map[uint64]context.CancelFunc)
	}
	b.newest++
	number := b.newest
	b.stops[number] = stop
	b.running.Go(func() {
		defer b.done(number)
		b.Safely(ctx, func() { f(ctx) })
	})
}

// done forgets a function that has returned.
func (b *background) done(number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stops[number]()
	delete(b.stops, number)
}

// end ends all functions and waits for them. No other begins after that.
func (b *background) end() {
	b.mu.Lock()
	b.over = true
	for _, stop := range b.stops {
		stop()
	}
	b.mu.Unlock()
	b.running.Wait()
}
