package ratelimit

import (
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/evict"
)

// How prefetches live, grow and shrink.
const (
	prefetchLife = 30 * time.Second       // after the last trip
	prefetchTime = 250 * time.Millisecond // a prefetch that is used up sooner grows
	// the prefetches of all replicas together are at most Burst divided by this
	prefetchPart  = 8
	prefetchSmall = 16   // tokens of the smallest, if they may be so many
	partsMost     = 1024 // sharers of one prefetch that are remembered
	// a bucket that was empty is asked for again after this, however empty it was
	emptyMost = 10 * time.Second
)

// prefetch is what one replica has taken ahead of one bucket, and what it knows of it. The
// lock of its Redis guards it.
type prefetch struct {
	bucket   Bucket // without a sharer
	replicas int
	tokens   int           // that may be used
	aside    int           // more tokens, which calls keep during their trips
	until    time.Time     // when they are lost
	size     int           // tokens that it should have
	left     float64       // tokens of the bucket after the last trip
	at       time.Time     // when that began; zero: there was none
	dry      bool          // that trip brought none ahead
	trip     chan struct{} // under way, closed when it is over; nil: none
	awaited  int           // tokens that others need, and wait for the trip
	used     time.Time     // when somebody last took of it
	empty    empty
	parts    map[string]*part
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
	if l.bucket.Limit != b.Limit || l.bucket.Group != b.Group {
		l.bucket = Bucket{Key: b.Key, Limit: b.Limit, Group: b.Group}
		l.tokens, l.at, l.empty = 0, time.Time{}, empty{}
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

// lacks returns how many tokens are missing to a full bucket, as far as is known since
// the last trip; what is in this prefetch is not missing.
func (l *prefetch) lacks(now time.Time) float64 {
	has := l.left + max(now.Sub(l.at).Seconds(), 0)*l.bucket.Limit.Rate + float64(l.available(now))
	return max(float64(l.bucket.Limit.Burst)-has, 0)
}

// owes returns what a sharer owes now, zero for none.
func (l *prefetch) owes(sharer string, now time.Time) float64 {
	if p := l.parts[sharer]; p != nil {
		return p.owes(l.bucket.Limit, l.lacks(now), now)
	}
	return 0
}

// refuse returns the refusal that is known without a trip, nil for none: the bucket was
// found empty, or the sharer has its share. A quiet sharer is only refused if there are
// too few tokens for anybody. Before the first trip nobody knows.
func (l *prefetch) refuse(w *want, now time.Time) *ExceededError {
	e := &l.empty
	if w.tokens >= e.tokens && now.Before(e.until) && now.Sub(e.noted) < emptyMost &&
		l.available(now) < w.tokens {
		return l.refusal(w, e.until.Sub(now), false, now)
	}
	return l.refusal(w, 0, true, now)
}

// refusal returns the refusal of a bucket that will have enough after wait, or has, for
// the reason that holds for longer; nil for none.
func (l *prefetch) refusal(w *want, wait time.Duration, enough bool, now time.Time) *ExceededError {
	if !l.at.IsZero() && !l.isQuiet(w, now) {
		share, ok := l.waitShare(w, now)
		if !ok && (enough || share > wait+minRetry) { // a share waits for whole milliseconds
			return &ExceededError{Bucket: w.index, Share: true, RetryAfter: max(upToMicros(share), minRetry)}
		}
	}
	if enough {
		return nil
	}
	return &ExceededError{Bucket: w.index, RetryAfter: max(upToMicros(wait), minRetry)}
}

// waitShare tells whether the share of the sharer allows what is wanted, and if not, in
// what time it will.
func (l *prefetch) waitShare(w *want, now time.Time) (time.Duration, bool) {
	p := l.parts[w.Sharer]
	if p == nil {
		p = &part{at: now}
	}
	limit := l.bucket.Limit
	return limit.waitPart(float64(w.tokens), l.lacks(now), limit.quiet(l.replicas), p, now)
}

// isQuiet tells whether all tokens of the bucket are for the one who wants some, the
// reserve included.
func (l *prefetch) isQuiet(w *want, now time.Time) bool {
	return w.Sharer == "" || float64(w.tokens)+l.owes(w.Sharer, now) <= l.bucket.Limit.quiet(l.replicas)+slack
}

// owe adds what the sharer takes to what it owes. The tokens are not taken yet.
func (l *prefetch) owe(w *want, now time.Time) {
	if w.Sharer == "" {
		return
	}
	p := l.parts[w.Sharer]
	if p == nil {
		if len(l.parts) >= partsMost {
			l.tidy(now)
		}
		if l.parts == nil {
			l.parts = make(map[string]*part)
		}
		p = &part{at: now}
		l.parts[w.Sharer] = p
	}
	p.owed, p.at = p.owes(l.bucket.Limit, l.lacks(now), now)+float64(w.tokens), now
}

// tidy forgets sharers: of a sample those that owe nothing any more and, if there are too
// many and all owe something, the one that owes least.
func (l *prefetch) tidy(now time.Time) {
	lacks, crowded := l.lacks(now), len(l.parts) >= partsMost
	evict.One(l.parts, sampleSize, func(_ string, p *part) (worth float64, may bool) {
		owed := p.owes(l.bucket.Limit, lacks, now) - slack
		return owed, crowded || owed < 0
	})
}

// most returns how many tokens the prefetch may have.
func (l *prefetch) most() int { return l.bucket.Limit.Burst / (prefetchPart * l.replicas) }

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
	l.tidy(at)
}

// lacked returns the refusal that follows from what a trip has found, which has brought so
// many tokens ahead, nil if this bucket has enough, and notes it. What other calls have put
// back meanwhile was not there for the trip.
func (l *prefetch) lacked(w *want, ahead int, now time.Time) *ExceededError {
	wait, enough := l.bucket.Limit.wait(w.tokens-w.aside-ahead, l.left)
	if !enough {
		l.empty = empty{w.tokens, now, now.Add(upToMicros(wait))}
	}
	return l.refusal(w, wait, enough, now)
}

// upToMicros rounds up to what the server's clock can tell apart.
func upToMicros(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// isIdle tells whether the prefetch was not used for so long that nothing is lost with it.
func (l *prefetch) isIdle(now time.Time) bool {
	return l.trip == nil && now.Sub(l.used) > prefetchLife
}
