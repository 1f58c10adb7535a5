package ratelimit

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/evict"
)

const prefetchesMost = 100_000 // that are remembered

// prefetchLocked returns the prefetch of a bucket, and makes an empty one if there is
// none. To make room it forgets prefetches that are idle, of a sample of all, and if
// there are too many the one that was not used for longest; what a forgotten prefetch
// still has is lost for its time.
func (r *Redis) prefetchLocked(b *Bucket, now time.Time) *prefetch {
	l := r.prefetches[b.Key]
	if l == nil {
		r.forgetLocked(now)
		l = &prefetch{replicas: r.config.Replicas}
		r.prefetches[b.Key] = l
	}
	l.adapt(b)
	l.used = now
	return l
}

func (r *Redis) forgetLocked(now time.Time) {
	evict.One(r.prefetches, sampleSize, func(_ string, l *prefetch) (worth float64, may bool) {
		if l.isIdle(now) {
			return 0, true
		}
		return 1 / (1 + now.Sub(l.used).Seconds()), len(r.prefetches) >= prefetchesMost && l.trip == nil
	})
}

// fillLocked has those prefetches of one call filled that are low, and waits for nothing.
// Whoever needs a token next finds out what is wrong if it fails.
func (r *Redis) fillLocked(wants []want, now time.Time) {
	if r.config.Store.Up() != nil {
		return
	}
	var asks []ask
	for i := range wants {
		if l := wants[i].prefetch; l.isLow(now) {
			asks = append(asks, ask{prefetch: l, owed: -1, ahead: l.ahead(now), prefetched: l.all(now)})
		}
	}
	if len(asks) == 0 {
		return
	}
	over := beginLocked(asks)
	go func() { // the patience of the store bounds it
		r.mu.Lock()
		defer r.mu.Unlock()
		_, _ = r.goLocked(context.Background(), asks, over, now)
	}()
}
