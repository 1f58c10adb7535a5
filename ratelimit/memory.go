package ratelimit

import (
	"context"
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/drawbridge-mcp/drawbridge/internal/evict"
)

const (
	defaultSize = 100_000
	maxShards   = 64               // a set of shards is a uint64, one bit for each shard
	sampleSize  = 64               // buckets that are looked at to find some to forget
	minRetry    = time.Millisecond // the shortest RetryAfter: rounded down to zero it would mean never
	// the longest RetryAfter: a tiny Rate gives seconds that overflow a Duration
	maxRetry = 365 * 24 * time.Hour
)

// Memory is a Limiter in the memory of this process, bounded in its number of keys. It is
// safe for concurrent use.
//
// The buckets are spread over shards by a hash of their key, so that calls with different
// keys rarely wait for each other. One Take goes like this:
//
//	add up what goes to the same bucket merge
//	lock the shards of all buckets, in ascending order
//	find or make each bucket, and part  shard.claim, claimPart, which may forget others to make room
//	look whether all have enough        takeAll
//	take from all, or from none         takeAll
//	unlock
//
// The locks are held from the look to the taking. The other way, to reserve in each
// bucket and to cancel if one refuses, would be wrong: a cancelled rate.Reservation gives
// back too little if others reserved meanwhile, so that calls which are refused would eat
// the tokens of those which are allowed.
type Memory struct {
	// random for each process, so that no client can choose keys that all fall into one
	// shard
	seed     maphash.Seed
	shards   []shard
	perShard int // the most keys that a shard remembers
}

var _ Limiter = (*Memory)(nil)

// shard is the part of the buckets whose keys have the same hash modulo the number of
// shards.
type shard struct {
	mu      sync.Mutex // guards the fields below and the buckets in them
	buckets map[string]*bucket
	parts   map[partKey]*part // of the same buckets
}

// bucket is the tokens of one key.
type bucket struct {
	limiter *rate.Limiter
	limit   Limit // that limiter was last set to
	claimed bool  // the Take that holds the lock uses it, so forget must leave it alone
}

// NewMemory returns a limiter that remembers at most size keys, and as many sharers; zero
// means 100,000. If there are more, it forgets buckets. A bucket that is forgotten starts
// full when its key comes back. So full buckets are forgotten first, because for them
// that changes nothing, and then those that are nearly full. A flood of new keys, which
// an attacker can cause, therefore hardly refills the bucket of somebody who is at the
// limit.
func NewMemory(size int) *Memory {
	if size <= 0 {
		size = defaultSize
	}
	m := &Memory{seed: maphash.MakeSeed(), shards: make([]shard, min(size, maxShards))}
	m.perShard = size / len(m.shards)
	for i := range m.shards {
		m.shards[i] = shard{buckets: make(map[string]*bucket), parts: make(map[partKey]*part)}
	}
	return m
}

// claim is what one Take wants of one bucket.
type claim struct {
	shard  uint64  // index of the shard that has the bucket
	index  int     // of the Bucket among the arguments of Take, for ExceededError
	bucket *bucket // nil until the shards are locked
	part   *part   // of the Sharer; nil without one, and until the shards are locked
	tokens int     // to take
}

// Take implements Limiter. It never waits for anything but the locks of shards, so it
// does not look at the context. Its only errors are *ExceededError.
func (m *Memory) Take(_ context.Context, buckets ...Bucket) error {
	// both spare calls with few buckets, which nearly all have, an allocation
	var wanted [8]want
	var buffer [8]claim
	wants, never := merge(buckets, wanted[:0])
	if never != nil {
		return never
	}
	claims, set := buffer[:0], uint64(0)
	for _, w := range wants {
		index := maphash.String(m.seed, w.Key) % uint64(len(m.shards))
		claims = append(claims, claim{shard: index, index: w.index, tokens: w.tokens})
		set |= 1 << index
	}
	m.lock(set)
	defer m.unlock(set)
	// The time is taken with the locks held. Taken before them, it could be older than
	// the time that another call has put into a bucket meanwhile, and the bucket would
	// see time go backwards.
	now := time.Now()
	for i := range claims {
		c, w := &claims[i], &wants[i]
		c.bucket = m.shards[c.shard].claim(w.Bucket, now, m.perShard)
		if w.Sharer != "" {
			c.part = m.shards[c.shard].claimPart(w.Bucket, now, m.perShard)
		}
	}
	return takeAll(claims, now)
}

// lock locks the shards whose bits are in set, in ascending order. All calls lock in the
// same order, so two of them never hold a shard each and wait for the other's.
func (m *Memory) lock(set uint64) {
	for ; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(set)].mu.Lock()
	}
}

// unlock unlocks the shards of set.
func (m *Memory) unlock(set uint64) {
	for ; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(set)].mu.Unlock()
	}
}

// takeAll takes the tokens of all claims if every bucket has enough of them, and
// otherwise returns an *ExceededError for the bucket that takes longest. Either way the
// buckets are no longer claimed. The shards must be locked.
func takeAll(claims []claim, now time.Time) error {
	var exceeded *ExceededError
	for i := range claims {
		c := &claims[i]
		wait, share, ok := c.wait(now)
		// A wait of 0 is never, which is longer than any other.
		if !ok && (exceeded == nil || exceeded.RetryAfter > 0 && (wait == 0 || wait > exceeded.RetryAfter)) {
			exceeded = &ExceededError{Bucket: c.index, Share: share, RetryAfter: wait}
		}
	}
	if exceeded != nil {
		return exceeded
	}
	for i := range claims {
		if c := &claims[i]; c.part != nil {
			c.part.take(c.bucket, c.tokens, now)
		}
		claims[i].bucket.limiter.AllowN(now, claims[i].tokens)
	}
	return nil
}

// wait ends the claim, and tells whether its tokens can be taken now. If not, the
// duration says when they can be; 0 means never. share tells that it is the share of the
// sharer that takes longest.
func (c *claim) wait(now time.Time) (wait time.Duration, share, ok bool) {
	c.bucket.claimed = false
	if c.part != nil {
		c.part.claimed = false
	}
	return c.bucket.limit.waitBoth(c.tokens, c.bucket.limiter.TokensAt(now), c.part, now)
}

// waitBoth is wait for a bucket that may have sharers: p is the one that asks, nil if
// there are none. share tells that it is the share of the sharer that takes longest.
func (l Limit) waitBoth(tokens int, has float64, p *part,
	now time.Time,
) (wait time.Duration, share, ok bool) {
	wait, ok = l.wait(tokens, has)
	if p == nil || !ok && wait == 0 {
		return wait, false, ok
	}
	waitPart, okPart := l.waitPart(float64(tokens), max(float64(l.Burst)-has, 0), l.quiet(1), p, now)
	if okPart || !ok && waitPart > 0 && waitPart <= wait+minRetry { // a part waits for whole milliseconds
		return wait, false, ok
	}
	return waitPart, true, false
}

// wait tells whether a bucket of this limit that has so many tokens has as many as are
// wanted. If it has not, the duration says when it will; 0 means never.
func (l Limit) wait(tokens int, has float64) (time.Duration, bool) {
	if tokens > l.Burst {
		return 0, false
	}
	seconds := (float64(tokens) - has) / l.Rate
	// rate.Limiter rounds less than a nanosecond down to none, so AllowN agrees
	if seconds*float64(time.Second) < 1 {
		return 0, true
	}
	if seconds > maxRetry.Seconds() {
		return maxRetry, false
	}
	return max(time.Duration(seconds*float64(time.Second)), minRetry), false
}

// claim returns the bucket that want names. It makes a full one if there is none, and
// adapts one that has another limit. size is the most keys that the shard may remember;
// only the buckets of a single Take, which cannot be forgotten while it runs, may exceed
// it.
func (s *shard) claim(want *Bucket, now time.Time, size int) *bucket {
	// MaxFloat64 is rate.Inf; an infinite Rate becomes that
	limit := rate.Limit(min(want.Limit.Rate, math.MaxFloat64))
	b, known := s.buckets[want.Key]
	switch {
	case !known:
		for len(s.buckets) >= size && s.forget(now) {
		}
		b = &bucket{limiter: rate.NewLimiter(limit, want.Limit.Burst), limit: want.Limit}
		s.buckets[want.Key] = b
	case b.limit != want.Limit:
		b.limiter.SetLimitAt(now, limit)
		b.limiter.SetBurstAt(now, want.Limit.Burst)
		b.limit = want.Limit
	}
	b.claimed = true
	return b
}

// forget makes room: the fuller a bucket is, the less is lost with it. It is false if all
// are claimed by the Take that asks.
func (s *shard) forget(now time.Time) bool {
	return evict.One(s.buckets, sampleSize, func(_ string, b *bucket) (worth float64, may bool) {
		return 1 - b.limiter.TokensAt(now)/float64(b.limit.Burst), !b.claimed
	})
}
