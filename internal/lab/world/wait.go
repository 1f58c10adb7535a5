package world

import (
	"context"
	"fmt"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// look is how often a condition is looked at.
const look = 20 * time.Millisecond

// Pause waits for a while, or until ctx ends, and tells whether ctx goes on.
func Pause(ctx context.Context, d time.Duration) bool {
	return pace.Wait(ctx, d)
}

// Within waits until something is done. An error says what was not within the limit.
func Within(ctx context.Context, limit time.Duration, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for !done() {
		if !Pause(ctx, look) {
			return fmt.Errorf("waited in vain: %s", what)
		}
	}
	return nil
}

// Until waits until nothing is wrong, which wrong panics with. When ctx ends before that,
// the error has what is.
func Until(ctx context.Context, wrong func()) {
	var last error
	for {
		now := must.Try(wrong)
		if now == nil {
			return
		}
		if ctx.Err() == nil || last == nil {
			last = now // what goes wrong since ctx has ended says little
		}
		if !Pause(ctx, look) {
			panic(fmt.Errorf("waited in vain: %w: %w", ctx.Err(), last))
		}
	}
}

// Addresses returns addresses of this machine at which nobody listens.
func Addresses(n int) []string {
	addresses := make([]string, n)
	for i := range addresses {
		addresses[i] = must.Have(freeport.Address())
	}
	return addresses
}

// For does something for which there is so much time.
func For(ctx context.Context, limit time.Duration, do func(ctx context.Context)) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	do(ctx)
}
