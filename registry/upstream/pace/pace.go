// Package pace says how long to wait before something is tried again: after failures, and when it is asked for without
// end. It does not know what is tried.
package pace

import (
	"context"
	"math/rand/v2"
	"time"
)

// MinGap is the least that a Pacer pauses.
const MinGap = 20 * time.Millisecond

const (
	backoffMin = 100 * time.Millisecond
	backoffMax = 30 * time.Second
	gapsFree   = 10 // requests in a row that a Pacer does not space out
)

// Backoff returns how long to wait after that many failures in a row: doubling up to half a minute, with jitter of a half.
func Backoff(failures int) time.Duration {
	d := backoffMax
	if failures < 9 {
		d = min(backoffMin<<failures, backoffMax)
	}
	return Jitter(d)
}

// Jitter returns between d/2 and d, so that many who wait for the same thing do not all come at once.
func Jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // spreads load, guards nothing
}

// Wait tells whether d passed before ctx ended.
func Wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Pacer spaces out what may be asked for without end: some requests in a row are served at once, an endless row one in a
// gap. Otherwise a server, or whoever can call a tool that changes its lists, could keep the gateway listing. It is not
// safe for concurrent use.
type Pacer struct {
	Gap  time.Duration
	debt time.Duration // a gap for each that was served, less the time that has passed
	last time.Time
}

// Next returns how long to pause after one request was served: MinGap, or more.
func (p *Pacer) Next() time.Duration {
	now := time.Now()
	p.debt = max(p.debt-now.Sub(p.last), 0) + p.Gap
	p.last = now
	return max(p.debt-gapsFree*p.Gap, MinGap)
}
