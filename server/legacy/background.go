package legacy

import (
	"context"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// background runs what the server does beside the requests of clients, mostly to tell
// other replicas something. Each function runs in a goroutine of its own, and whoever
// begins it bounds how many there are. end ends and waits for those that are left. A
// panic ends only the function that panicked. It is safe for concurrent use.
type background struct {
	exchange.Guard

	life    context.Context //nolint:containedctx // of all functions
	stop    context.CancelFunc
	mu      sync.Mutex // held while one begins
	running sync.WaitGroup
}

func newBackground(g exchange.Guard) *background {
	life, stop := context.WithCancel(context.Background()) // end calls stop
	return &background{Guard: g, life: life, stop: stop}
}

// begin runs f with a context that has the values of ctx, and that ends when end is
// called instead of with ctx. After end it does nothing: nobody is served any more.
func (b *background) begin(ctx context.Context, f func(ctx context.Context)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.life.Err() != nil {
		return
	}
	b.running.Go(func() {
		ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
		defer context.AfterFunc(b.life, stop)()
		b.Safely(ctx, func() { f(ctx) })
	})
}

// end ends all functions and waits for them. No other begins after that.
func (b *background) end() {
	b.mu.Lock()
	b.stop()
	b.mu.Unlock()
	b.running.Wait()
}
