package ratelimit

import "time"

// How prefetches live, grow and shrink.
const (
	prefetchLife = 30 * time.Second       // after the last trip
	prefetchTime = 250 * time.Millisecond // a prefetch that is used up sooner grows
	// the prefetches of all replicas together are at most Burst divided by this
	prefetchPart  = 8
	prefetchSmall = 16 // tokens of the smallest, if they may be so many
	// a bucket that was empty is asked for again after this, however empty it was
	emptyMost = 10 * time.Second
)

// prefetch is what one replica has taken ahead of one bucket, and what it knows of that:
// at is when the last trip began, and left what the bucket had after it. The lock of its
// Redis guards it.
type prefetch struct {
	bucket

	key, group string // of the bucket: its key in Redis, and its Group
	replicas   int
	tokens     int           // that may be used
	aside      int           // more tokens, which calls keep during their trips
	until      time.Time     // when they are lost
	size       int           // tokens that it should have
	dry        bool          // the last trip brought none ahead
	trip       chan struct{} // under way, closed when it is over; nil: none
	awaited    int           // tokens that others need, and wait for the trip
	used       time.Time     // when somebody last took of it
	empty      empty
}

// empty says that the bucket had fewer tokens than those, and will have so many at a
// time. The zero empty says nothing.
type empty struct {
	tokens       int
	noted, until time.Time
}

// adapt makes the prefetch one of the bucket as it is now. After a change nothing is known
// of it.
func (l *prefetch) adapt(b *Bucket) {
	if l.limit != b.Limit || l.group != b.Group {
		l.key, l.group, l.limit = keyOf(b), b.Group, b.Limit
		l.tokens, l.left, l.at, l.empty = 0, float64(b.Limit.Burst), time.Time{}, empty{}
	}
}

// available returns how many tokens may be used now.
func (l *prefetch) available(now time.Time) int {
	if !now.Before(l.until) {
		l.tokens = 0
	}
	return l.tokens
}

// all returns how many tokens of the bucket are here: those that may be used now, and
// those that calls keep aside.
func (l *prefetch) all(now time.Time) int { return l.available(now) + l.aside }

// view returns the bucket as it is now, as far as is known since the last trip; what is
// in this prefetch is not missing.
func (l *prefetch) view(now time.Time) view {
	return l.bucket.view(now, l.available(now), l.replicas)
}

// refuse returns the refusal that is known without a trip, nil for none: the bucket was
// found empty, or the sharer has its share.
func (l *prefetch) refuse(w *want, now time.Time) *ExceededError {
	e := &l.empty
	if w.tokens >= e.tokens && now.Before(e.until) && now.Sub(e.noted) < emptyMost &&
		l.available(now) < w.tokens {
		return l.view(now).refusal(w, e.until.Sub(now), false)
	}
	return l.view(now).refusal(w, 0, true)
}

// most returns how many tokens the prefetch may have.
func (l *prefetch) most() int { return l.limit.Burst / (prefetchPart * l.replicas) }

// isLow tells whether the prefetch should be filled: half of it is used, or its time is half
// over.
func (l *prefetch) isLow(now time.Time) bool {
	if l.trip != nil || l.most() == 0 || l.dry && now.Sub(l.at) < prefetchTime {
		return false
	}
	return l.available(now) <= l.size/2 || l.until.Sub(now) < prefetchLife/2
}

// ahead returns how many tokens a trip should bring besides those that are needed: for the
// size, which grows when the prefetch is used up fast, and shrinks otherwise, or for those
// who wait. It is never more than the prefetch may have, also for those: they may be
// refused for another bucket, or go away, and others would lack what was brought for them.
func (l *prefetch) ahead(now time.Time) int {
	switch since := now.Sub(l.at); {
	case since < prefetchTime:
		l.size *= 2
	case since > 4*prefetchTime:
		l.size /= 2
	}
	l.size = min(max(l.size, prefetchSmall), l.most())
	return max(min(max(l.size, l.awaited), l.most())-l.all(now), 0)
}

// add puts into the prefetch what a trip has brought that began at that time.
func (l *prefetch) add(o outcome, at time.Time) {
	l.tokens, l.until = l.available(at)+o.ahead, at.Add(prefetchLife)
	l.left, l.at, l.dry = o.left, at, o.ahead == 0
}

// lacked returns the refusal that follows from what a trip has found, which has brought so
// many tokens ahead, nil if this bucket has enough, and notes it. What other calls have put
// back meanwhile was not there for the trip.
func (l *prefetch) lacked(w *want, ahead int, now time.Time) *ExceededError {
	wait, enough := l.limit.wait(w.tokens-w.aside-ahead, l.left)
	if !enough {
		l.empty = empty{w.tokens, now, now.Add(upToMicros(wait))}
	}
	return l.view(now).refusal(w, wait, enough)
}

// isIdle tells whether the prefetch was not used for so long that nothing is lost with it.
func (l *prefetch) isIdle(now time.Time) bool {
	return l.trip == nil && now.Sub(l.used) > prefetchLife
}
