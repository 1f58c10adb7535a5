package ratelimit

import (
	"context"
	"math"
	"sync"
	"time"
)

// How leases live, grow and shrink.
const (
	leaseLife  = 30 * time.Second       // after the last trip
	leaseTime  = 250 * time.Millisecond // a lease that is used up sooner grows
	leasePart  = 8                      // the leases of all replicas together are at most Burst divided by this
	leaseSmall = 16                     // tokens of the smallest, if they may be so many
	partsMost  = 1024                   // sharers of one lease that are remembered
)

// lease is what one replica has taken ahead of one bucket, and what it knows of it.
type lease struct {
	replicas int

	mu       sync.Mutex // guards the fields below
	key      string
	group    string
	limit    Limit
	tokens   int           // that are left
	until    time.Time     // when they are lost
	size     int           // tokens that it should have
	left     float64       // tokens of the bucket after the last trip
	at       time.Time     // when that began; zero: there was none
	dry      bool          // that trip brought none ahead
	trip     chan struct{} // under way, closed when it is over; nil: none
	awaited  int           // tokens that others need, and wait for the trip
	queued   bool          // Run is to fill it
	lastUsed time.Time
	parts    map[string]*part
}

// bucket returns the bucket that the lease is of, without a sharer.
func (l *lease) bucket() *Bucket { return &Bucket{Key: l.key, Group: l.group, Limit: l.limit} }

// take takes what is wanted from the lease. If it neither did that nor returns a refusal, the lease has too few tokens.
func (l *lease) take(w *want, shared *Redis, now time.Time) (taken bool, refused *ExceededError) {
	if l.limit != w.Limit || l.key != w.Key || l.group != w.Group {
		l.key, l.group, l.limit, l.tokens, l.at = w.Key, w.Group, w.Limit, 0, time.Time{}
	}
	l.lastUsed = now
	if refused := l.judge(w, now); refused != nil {
		return false, refused
	}
	if l.held(now) < w.tokens {
		return false, shared.refusals.known([]want{{l.bucket(), 0, w.tokens}}, now)
	}
	l.owe(w, now)
	l.tokens -= w.tokens
	return true, nil
}

// held returns how many tokens may be used now.
func (l *lease) held(now time.Time) int {
	if !now.Before(l.until) {
		l.tokens = 0
	}
	return l.tokens
}

// lacks returns how many tokens are missing to a full bucket, as far as is known since the last trip; what is in this
// lease is not missing.
func (l *lease) lacks(now time.Time) float64 {
	has := l.left + max(now.Sub(l.at).Seconds(), 0)*l.limit.Rate + float64(l.held(now))
	return max(float64(l.limit.Burst)-has, 0)
}

// judge returns the refusal if the sharer has its share. Before the first trip nobody knows.
func (l *lease) judge(w *want, now time.Time) *ExceededError {
	if w.Sharer == "" || l.at.IsZero() {
		return nil
	}
	p := l.parts[w.Sharer]
	if p == nil {
		p = &part{at: now}
	}
	wait, ok := l.limit.waitPart(float64(w.tokens), l.lacks(now), l.limit.quiet(l.replicas), p, now)
	if ok || l.isQuiet(w, now) {
		return nil // a quiet one is only refused if there are too few for anybody, which a trip tells
	}
	return &ExceededError{Share: true, RetryAfter: max(wait, minRetry)}
}

// isQuiet tells whether all tokens of the bucket are for the one who wants some, the reserve included.
func (l *lease) isQuiet(w *want, now time.Time) bool {
	if w.Sharer == "" {
		return true
	}
	owed := float64(w.tokens)
	if p := l.parts[w.Sharer]; p != nil {
		owed += p.owes(w.Limit, l.lacks(now), now)
	}
	return owed <= w.Limit.quiet(l.replicas)+slack
}

// owe adds what the sharer takes to what it owes. The tokens are not taken yet.
func (l *lease) owe(w *want, now time.Time) {
	if w.Sharer == "" {
		return
	}
	p := l.parts[w.Sharer]
	if p == nil {
		if len(l.parts) >= partsMost {
			l.tidy(now)
		}
		p = &part{at: now}
		l.parts[w.Sharer] = p
	}
	p.owed, p.at = p.owes(l.limit, l.lacks(now), now)+float64(w.tokens), now
}

// tidy forgets sharers: of a sample those that owe nothing any more and, if there are still too many, the one that owes
// least.
func (l *lease) tidy(now time.Time) {
	lacks, looked, victim, least := l.lacks(now), 0, "", math.Inf(1)
	for sharer, p := range l.parts { // Go goes through maps in random order
		owed := p.owes(l.limit, lacks, now)
		if owed < slack {
			delete(l.parts, sharer)
		} else if owed < least {
			victim, least = sharer, owed
		}
		if looked++; looked == sampleSize {
			break
		}
	}
	if len(l.parts) >= partsMost {
		delete(l.parts, victim)
	}
}

// most returns how many tokens the lease may have.
func (l *lease) most() int { return l.limit.Burst / (leasePart * l.replicas) }

// isLow tells whether the lease should be filled: half of it is used, or its time is half over.
func (l *lease) isLow(now time.Time) bool {
	if l.dry && now.Sub(l.at) < leaseTime {
		return false
	}
	return l.most() > 0 && (l.held(now) <= l.size/2 || l.until.Sub(now) < leaseLife/2)
}

// ahead returns how many tokens a trip should bring besides those that are needed: enough for those who wait, and for the
// size, which grows when the lease is used up fast, and shrinks otherwise.
func (l *lease) ahead(now time.Time) int {
	switch since := now.Sub(l.at); {
	case since < leaseTime:
		l.size *= 2
	case since > 4*leaseTime:
		l.size /= 2
	}
	l.size = min(max(l.size, leaseSmall), l.most())
	return max(l.size-l.held(now), l.awaited, 0)
}

// add puts tokens into the lease, which a trip has brought that began at that time and left so many.
func (l *lease) add(tokens int, left float64, at time.Time) {
	l.tokens, l.until = l.held(at)+tokens, at.Add(leaseLife)
	l.left, l.at, l.dry = left, at, tokens == 0
	l.tidy(at)
}

// noteEmpty returns the refusal of a bucket that has too few tokens, and remembers it.
func (l *lease) noteEmpty(w *want, shared *Redis, now time.Time) error {
	wait, ok := w.Limit.wait(w.tokens, l.left)
	if ok {
		wait = minRetry
	}
	wait = upToMicros(wait)
	shared.refusals.note(&want{l.bucket(), 0, w.tokens}, false, wait, now)
	return &ExceededError{RetryAfter: wait}
}

// await waits until the trip that is under way is over, or ctx ends. The lock is held, but not meanwhile.
func (l *lease) await(ctx context.Context, tokens int) {
	trip := l.trip
	l.awaited += tokens
	l.mu.Unlock()
	select {
	case <-trip:
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.awaited -= tokens
}

// isIdle tells whether the lease was not used for so long that nothing is lost with it.
func (l *lease) isIdle(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.trip == nil && !l.queued && now.Sub(l.lastUsed) > max(sweepEvery, leaseLife)
}
