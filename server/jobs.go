package server

import (
	"context"
	"errors"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// errStopping is the cause of a call's end when the process stops.
var errStopping = errors.New("the gateway is stopping")

// call is one request in work.
type job struct {
	id     mcp.ID
	cancel context.CancelCauseFunc
	heeds  sync.WaitGroup // what looks whether another replica was told to cancel it
}

// calls are all requests in work, so that a shutdown can wait for them. Some outlive the connection they came on.
type jobs struct {
	mu      sync.Mutex // guards the fields below
	running map[*job]struct{}
	closing bool
	empty   chan struct{} // closed when closing and none is running
}

func newJobs() *jobs {
	return &jobs{running: make(map[*job]struct{}), empty: make(chan struct{})}
}

// begin adds a call that ends with ctx. It returns nil when no more calls begin.
func (js *jobs) begin(ctx context.Context, id mcp.ID) (context.Context, *job) {
	js.mu.Lock()
	defer js.mu.Unlock()
	if js.closing {
		return ctx, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	j := &job{id: id, cancel: cancel}
	js.running[j] = struct{}{}
	return ctx, j
}

// finish takes the call out, after its answer was given.
func (js *jobs) finish(j *job) {
	j.cancel(nil)
	j.heeds.Wait()
	js.mu.Lock()
	defer js.mu.Unlock()
	delete(js.running, j)
	if js.closing && len(js.running) == 0 {
		close(js.empty)
	}
}

func (js *jobs) closed() bool {
	js.mu.Lock()
	defer js.mu.Unlock()
	return js.closing
}

// wait lets no more calls begin and returns when none is running, or ctx ends; then it cancels them and says how many.
func (js *jobs) wait(ctx context.Context) int {
	js.mu.Lock()
	if !js.closing {
		js.closing = true
		if len(js.running) == 0 {
			close(js.empty)
		}
	}
	js.mu.Unlock()
	select {
	case <-js.empty:
		return 0
	case <-ctx.Done():
	}
	js.mu.Lock()
	defer js.mu.Unlock()
	for j := range js.running {
		j.cancel(errStopping)
	}
	return len(js.running)
}
