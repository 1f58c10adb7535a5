package wire

import (
	"context"
	"sync"
	"time"
)

// Limits of messages in the background.
const (
	asideLimit = 2 * time.Second // for one
	asideMax   = 32              // at once
)

// asides runs small messages that nobody waits for, a bounded number at once, and can wait for all of them.
type asides struct {
	slots chan struct{}
	work  sync.WaitGroup

	mu    sync.Mutex // guards the field below, and that no work begins after the wait for it
	ended bool
}

func newAsides() *asides { return &asides{slots: make(chan struct{}, asideMax)} }

// run starts f with a time limit of its own, because whoever asked may leave. It returns false when too many run
// already or close was called.
func (a *asides) run(ctx context.Context, f func(context.Context)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	select {
	case a.slots <- struct{}{}:
	default:
		return false
	}
	a.work.Go(func() {
		defer func() { <-a.slots }()
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), asideLimit)
		defer cancel()
		f(limited)
	})
	return true
}

// close waits for what runs, which its time limit bounds. Nothing starts afterwards.
func (a *asides) close() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.work.Wait()
}
