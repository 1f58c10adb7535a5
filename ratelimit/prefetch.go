package ratelimit

import "time"

// How prefetches live, grow and shrink.
const (
	prefetchLife = 30 * time.Second       // after the last trip
	prefetchTime = 250 * time.Millisecond // a prefetch that is used up sooner grows
	// the prefetches of all replicas together are at most Burst divided by this
	prefetchPart  = 8
	prefetchSmall = 16 // tokens of the smallest, if they may be so many
	// what a trip has found counts for so long: the server may have lost what it had
	knownTime = 10 * time.Second
)

// prefetch is what one replica has taken ahead of one bucket, and what it knows of that:
// at is when the last trip was over, and left what the bucket had then. The lock of its
// Redis guards it.
type prefetch struct {
	bucket

	key, group string // of the bucket: its key in Redis, and its Group
	replicas   int
	shared     bool          // somebody shares it with others
	tokens     int           // that may be used
	aside      int           // more tokens, which calls keep during their trips
	until      time.Time     // when they are lost
	size       int           // tokens that it should have
	dry        bool          // the last trip brought none ahead
	trip       chan struct{} // under way, closed when it is over; nil: none
	used       time.Time     // when somebody last took of it
}

// adapt makes the prefetch one of the bucket as it is now. After a change nothing is
// known of it.
func (l *prefetch) adapt(b *Bucket) {
	if l.limit != b.Limit || l.group != b.Group {
		l.key, l.group, l.limit = keyOf(b), b.Group, b.Limit
		l.tokens, l.left, l.at = 0, float64(b.Limit.Burst), time.Time{}
	}
	l.shared = b.Sharer != ""
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

// refuse returns the refusal of a call that has so many tokens of this prefetch, nil for
// none, by what the last trip has found: the bucket has no more than that and what it has
// regained, and the sharer may have its share.
func (l *prefetch) refuse(w *want, has int, now time.Time) *ExceededError {
	wait, enough := time.Duration(0), true
	if now.Sub(l.at) < knownTime {
		wait, enough = l.limit.wait(w.tokens-has, l.has(now))
	}
	return l.view(now).refusal(w, wait, enough)
}

// most returns how many tokens the prefetch may have.
func (l *prefetch) most() int { return l.limit.Burst / (prefetchPart * l.replicas) }

// inTurn tells whether one trip waits for the one before: it needs to know what that has
// brought ahead, or what whoever takes has taken by it. The calls of a user whose own
// bucket is small depend on neither, and each is a trip: in turn they would take long.
func (l *prefetch) inTurn() bool { return l.most() > 0 || l.shared }

// isLow tells whether the prefetch should be filled: half of it is used, or its time is
// half over.
func (l *prefetch) isLow(now time.Time) bool {
	if l.trip != nil || l.most() == 0 || l.dry && now.Sub(l.at) < prefetchTime {
		return false
	}
	return l.available(now) <= l.size/2 || l.until.Sub(now) < prefetchLife/2
}

// ahead returns how many tokens a trip should bring besides those that are needed: for
// the size, which grows when the prefetch is used up fast, and shrinks otherwise. It is
// never more than the prefetch may have, also for those who wait: they may be refused for
// another bucket, or go away, and others would lack what was brought for them.
func (l *prefetch) ahead(now time.Time) int {
	switch since := now.Sub(l.at); {
	case since < prefetchTime:
		l.size *= 2
	case since > 4*prefetchTime:
		l.size /= 2
	}
	l.size = min(max(l.size, prefetchSmall), l.most())
	return max(l.size-l.all(now), 0)
}

// add puts into the prefetch what a trip has brought. What the bucket had left counts
// from its end: from its begin it would be more than there is, and the next trip would be
// refused.
func (l *prefetch) add(a *ask, began, ended time.Time) {
	l.tokens, l.until = l.available(began)+a.got, began.Add(prefetchLife)
	l.left, l.at, l.dry = a.left, ended, a.got == 0
}

// isIdle tells whether the prefetch was not used for so long that nothing is lost with
// it.
func (l *prefetch) isIdle(now time.Time) bool {
	return l.trip == nil && now.Sub(l.used) > prefetchLife
}
