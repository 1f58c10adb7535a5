package main

import (
	"context"
	"time"
)

// task is a goroutine that can be ended and waited for.
type task struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// startTask runs a long-lived thing until ctx ends or stop is called.
func startTask(ctx context.Context, run func(context.Context) error) *task {
	ctx, cancel := context.WithCancel(ctx)
	t := &task{cancel: cancel, done: make(chan struct{})}
	go func() { // stop waits for it
		defer close(t.done)
		_ = run(ctx) // things that run on their own handle their errors; they return nothing but the end of ctx
	}()
	return t
}

// stop ends the task and waits for it.
func (t *task) stop() {
	t.cancel()
	<-t.done
}

// stopWithin ends the task and waits for it no longer than d: it may be in a write that nothing can interrupt. What is
// left of it ends with the process.
func (t *task) stopWithin(d time.Duration) {
	t.cancel()
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-t.done:
	case <-late.C:
	}
}
