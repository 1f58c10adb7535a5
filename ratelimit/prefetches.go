package ratelimit

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	fillers        = 8           // calls whose prefetches are filled at the same time
	queuedMost     = 1024        // calls whose prefetches wait for that
	prefetchesMost = 100_000     // prefetches that are remembered
	giveTime       = time.Second // in which prefetches are given back
)

// prefetchLocked returns the prefetch of a bucket, and makes an empty one if there is none. To
// make room it forgets prefetches that are idle, of a sample of all, and if there are too
// many the one that was not used for longest; what a forgotten prefetch still has is lost
// for its time.
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
	crowded := len(r.prefetches) >= prefetchesMost
	forgetOne(r.prefetches, sampleSize/8, func(_ string, l *prefetch) (worth float64, may bool) {
		if l.isIdle(now) {
			return 0, true
		}
		return 1 / (1 + now.Sub(l.used).Seconds()), crowded && l.trip == nil && !l.queued
	})
}

// queueLocked has Run fill the prefetches of one call that are low, of which there are so
// many.
func (r *Redis) queueLocked(wants []want, now time.Time, low int) {
	prefetches := make([]*prefetch, 0, low)
	for i := range wants {
		if l := wants[i].prefetch; l.isLow(now) {
			prefetches = append(prefetches, l)
		}
	}
	select {
	case r.low <- prefetches:
		for _, l := range prefetches {
			l.queued = true
		}
	default: // the next Take that finds none makes a trip
	}
}

// Run fills prefetches in the background until ctx ends, and then gives back what is left of
// them, if the server can be reached: the store must serve until Run has returned.
func (r *Redis) Run(ctx context.Context) error {
	defer r.giveBack(context.WithoutCancel(ctx))
	group, ctx := errgroup.WithContext(ctx)
	for range fillers {
		group.Go(func() error {
			for {
				select {
				case prefetches := <-r.low:
					r.fill(ctx, prefetches)
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
	return group.Wait()
}

// fill fills prefetches in the background. Whoever needs a token next finds out what is wrong
// if it fails.
func (r *Redis) fill(ctx context.Context, prefetches []*prefetch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	var buffer [8]ask
	asks := buffer[:0]
	for _, l := range prefetches {
		l.queued = false
		if l.trip == nil && l.bucket.Group == prefetches[0].bucket.Group {
			asks = append(asks, ask{prefetch: l, owed: -1, ahead: l.ahead(now), prefetched: l.all(now)})
		}
	}
	if len(asks) > 0 {
		_, _ = r.goLocked(ctx, asks, now)
	}
}

// giveBack puts into their buckets what no call has used of the prefetches, for the other
// replicas: it would otherwise be lost for them until the rate has brought as much again.
// What cannot be given back within giveTime is lost like that of a replica that was
// killed.
func (r *Redis) giveBack(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, giveTime)
	defer stop()
	group, ctx := errgroup.WithContext(ctx) // ends with the first trip that fails: the others would, too
	group.SetLimit(fillers)
	for _, l := range r.all() {
		group.Go(func() error { return r.giveBackOne(ctx, l) })
	}
	if err := group.Wait(); err != nil {
		r.config.Logger.DebugContext(ctx, "tokens that were taken ahead are not given back",
			slog.Any("error", err))
	}
}

// all returns the prefetches.
func (r *Redis) all() []*prefetch {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*prefetch, 0, len(r.prefetches))
	for _, l := range r.prefetches {
		all = append(all, l)
	}
	return all
}

// giveBackOne gives back what is left of one prefetch. The tokens leave it before the trip,
// so that nobody uses them meanwhile, and do not return if that fails: nobody knows then
// whether the bucket has them. The trip of somebody else keeps what there is, because the
// server would note after that trip what the replica had before.
func (r *Redis) giveBackOne(ctx context.Context, l *prefetch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	back := l.available(now)
	if back == 0 || l.trip != nil {
		return nil
	}
	l.tokens = 0
	asks := []ask{{prefetch: l, owed: -1, prefetched: l.all(now), back: back}}
	_, err := r.goLocked(ctx, asks, now)
	return err
}

// Ahead returns how many tokens are taken ahead of their use now, of all buckets
// together, for display.
func (r *Redis) Ahead() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum, now := 0, r.now()
	for _, l := range r.prefetches {
		sum += l.available(now)
	}
	return sum
}
