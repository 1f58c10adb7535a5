package server

import (
	"context"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// errands are what the server does beside the requests of clients, mostly to tell other
// replicas something. Each runs in a goroutine of its own, and whoever begins it bounds
// how many there are and how long each takes. Run ends and waits for those that are left.
// A panic ends only the errand. It is safe for concurrent use.
type errands struct {
	exchange.Guard

	running sync.WaitGroup
	mu      sync.Mutex // guards the fields below
	over    bool
	newest  uint64
	stops   map[uint64]context.CancelFunc // of those that run
}

// begin runs f with a context that has the values of ctx, and ends with the errands
// instead of with ctx. After end it does nothing: nobody is served any more.
func (e *errands) begin(ctx context.Context, f func(ctx context.Context)) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		stop()
		return
	}
	if e.stops == nil {
		e.stops = make(map[uint64]context.CancelFunc)
	}
	e.newest++
	number := e.newest
	e.stops[number] = stop
	e.running.Go(func() {
		defer e.done(number)
		e.Safely(ctx, func() { f(ctx) })
	})
}

// done forgets an errand that is over.
func (e *errands) done(number uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stops[number]()
	delete(e.stops, number)
}

// end ends all errands and waits for them. No other begins after that.
func (e *errands) end() {
	e.mu.Lock()
	e.over = true
	for _, stop := range e.stops {
		stop()
	}
	e.mu.Unlock()
	e.running.Wait()
}
