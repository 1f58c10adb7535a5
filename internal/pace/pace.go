// Package pace says when something is done again: after failures, when requests for it
// never end, once in each period, and when somebody says so; who waits while others want
// the same; and how much is done at once. It does not know what is done.
package pace

import (
	"context"
	"math/rand/v2"
	"time"
)

// MinGap is the shortest pause that a Pacer returns.
const MinGap = 20 * time.Millisecond

const (
	backoffMin = 100 * time.Millisecond
	backoffMax = 30 * time.Second
	gapsFree   = 10 // how many requests in a row a Pacer serves without spacing them out
)

// Backoff returns how long to wait after that many failures in a row, counted from zero:
// 100 ms, doubled by each failure up to half a minute, and of that between half and all
// (Jitter).
func Backoff(failures int) time.Duration {
	d := backoffMax
	if failures < 9 {
		d = min(backoffMin<<failures, backoffMax)
	}
	return Jitter(d)
}

// Jitter returns a random time between d/2 and d, so that many who wait for the same
// thing do not all come at once.
func Jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads load, guards nothing
}

// Wait waits for d and returns true. It returns false as soon as ctx ends.
func Wait(ctx context.Context, d time.Duration) bool { return WaitOr(ctx, d, nil) }

// WaitOr is Wait that returns true before d is over if sooner is closed or has a value,
// which it takes.
func WaitOr(ctx context.Context, d time.Duration, sooner <-chan struct{}) bool {
	select {
	case <-time.After(d):
	case <-sooner:
	case <-ctx.Done():
		return false
	}
	return true
}

// Every calls do once in each period until ctx ends, the first time when one is over.
// What do takes is part of the period, so a slow one does not put off the next. With Wait
// in a loop it does.
func Every(ctx context.Context, period time.Duration, do func(context.Context)) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			do(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// Pacer spaces out requests that somebody else may make without end: the first few in a
// row are served at once, the rest one in each Gap. Without it a server, or whoever can
// call a tool that changes the server's lists, could keep the gateway reading lists. The
// zero value with a Gap is ready. It is not safe for concurrent use.
type Pacer struct {
	Gap time.Duration
	// one Gap for each request that was served, less the time that has passed; never
	// below zero
	debt time.Duration
	last time.Time
}

// Next is called when a request was served. It returns how long to pause before the next
// one: MinGap, or more when too many came in a row.
func (p *Pacer) Next() time.Duration {
	now := time.Now()
	p.debt = max(p.debt-now.Sub(p.last), 0) + p.Gap
	p.last = now
	return max(p.debt-gapsFree*p.Gap, MinGap)
}
