package wire

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits of messages in the background.
const (
	backgroundLimit = 2 * time.Second // for one message
	backgroundMax   = 32              // messages at the same time
)

// background sends small messages that nobody waits for, a bounded number at the same
// time, and can wait for all of them. It is safe for concurrent use.
type background struct {
	up    Events
	slots *semaphore.Weighted
	// waits for what is on its way, for backgroundLimit at most. It keeps all slots, so
	// that nothing starts afterwards
	close func()
}

func newBackground(up Events) *background {
	slots := semaphore.NewWeighted(backgroundMax)
	return &background{
		up: up, slots: slots,
		close: sync.OnceFunc(func() { _ = slots.Acquire(context.Background(), backgroundMax) }),
	}
}

// tell sends a message in the background, or drops and counts it. Nobody waits for it, so
// that its error is of no use.
func (b *background) tell(ctx context.Context, body []byte, send func(context.Context, []byte) error) {
	if !b.run(ctx, func(ctx context.Context) { _ = send(ctx, body) }) {
		b.up.Count(Flooded, 1)
	}
}

// run starts f with a time limit of its own, because ctx may end with a caller who has
// left. It returns false when too many messages are on their way already, or close was
// called.
func (b *background) run(ctx context.Context, f func(context.Context)) bool {
	if !b.slots.TryAcquire(1) {
		return false
	}
	go func() {
		defer b.slots.Release(1)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), backgroundLimit)
		defer cancel()
		_ = b.up.Saved(limited, func() error { f(limited); return nil }) // nobody waits for it
	}()
	return true
}
