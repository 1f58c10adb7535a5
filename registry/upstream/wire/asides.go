package wire

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits of messages in the background.
const (
	asideLimit = 2 * time.Second // for one message
	asideMax   = 32              // messages at the same time
)

// asides sends small messages that nobody waits for, a bounded number at the same time,
// and can wait for all of them. It is safe for concurrent use.
type asides struct {
	up    Events
	slots *semaphore.Weighted
	// waits for what is on its way, for asideLimit at most. It keeps all slots, so that
	// nothing starts afterwards
	close func()
}

func newAsides(up Events) *asides {
	slots := semaphore.NewWeighted(asideMax)
	return &asides{
		up: up, slots: slots,
		close: sync.OnceFunc(func() { _ = slots.Acquire(context.Background(), asideMax) }),
	}
}

// tell sends a message in the background, or drops and counts it. Nobody waits for it, so
// that its error is of no use.
func (a *asides) tell(ctx context.Context, body []byte, send func(context.Context, []byte) error) {
	if !a.run(ctx, func(ctx context.Context) { _ = send(ctx, body) }) {
		a.up.Count(Flooded, 1)
	}
}

// run starts f with a time limit of its own, because ctx may end with a caller who has
// left. It returns false when too many messages are on their way already, or close was
// called.
func (a *asides) run(ctx context.Context, f func(context.Context)) bool {
	if !a.slots.TryAcquire(1) {
		return false
	}
	go func() {
		defer a.slots.Release(1)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), asideLimit)
		defer cancel()
		_ = a.up.Saved(limited, func() error { f(limited); return nil }) // nobody waits for it
	}()
	return true
}
