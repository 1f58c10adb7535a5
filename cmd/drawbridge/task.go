package main

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// task is a goroutine that can be ended and waited for. It is safe for concurrent use,
// and may be stopped more than once.
type task struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
}

// startTask calls run in a goroutine, with a context that ends with ctx or when the task
// is stopped.
func startTask(ctx context.Context, run func(context.Context) error) *task {
	ctx, cancel := context.WithCancel(ctx)
	t := &task{cancel: cancel, done: make(chan struct{})}
	go func() { // stop and stopWithin wait for it
		defer close(t.done)
		// whatever is run like this deals with its errors itself, and returns only
		// because ctx ended
		_ = run(ctx)
	}()
	return t
}

// stop ends the task and waits for it.
func (t *task) stop() {
	t.cancel()
	<-t.done
}

// stopWithin ends the task and waits for it, but no longer than d. It is for the log,
// whose goroutine may be in a write that nothing can interrupt; that write ends with the
// process.
func (t *task) stopWithin(d time.Duration) {
	t.cancel()
	pace.WaitOr(context.Background(), d, t.done)
}

// pollInterval is between two looks whether something that ends soon has ended.
const pollInterval = 10 * time.Millisecond
