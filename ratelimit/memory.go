package ratelimit

import (
	"context"
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	defaultSize = 100_000
	maxShards   = 64                   // one bit each in a set of shards
	sampleSize  = 64                   // buckets looked at to find those to forget
	minRetry    = time.Millisecond     // zero would mean never
	maxRetry    = 365 * 24 * time.Hour // beyond it a float does not fit a Duration
)

// Memory is a Limiter in this process, bounded in its number of keys. It is safe for concurrent use.
//
// It holds the locks of all shards that a call touches while it looks and takes, instead of reserving in each bucket
// and cancelling: a cancelled rate.Reservation gives back too little when others reserved meanwhile, so that refused
// calls would eat the tokens of allowed ones.
type Memory struct {
	seed     maphash.Seed
	shards   []shard
	perShard int // keys
}

var _ Limiter = (*Memory)(nil)

type shard struct {
	mu      sync.Mutex // guards the fields below and the buckets in them
	buckets map[string]*bucket
}

type bucket struct {
	limiter *rate.Limiter
	limit   Limit
	claimed bool // by the call that holds the lock
}

// NewMemory returns a limiter that remembers at most size keys (zero: 100,000). When there are more, full buckets,
// which are as good as new ones, are forgotten first, then nearly full ones.
func NewMemory(size int) *Memory {
	if size <= 0 {
		size = defaultSize
	}
	m := &Memory{seed: maphash.MakeSeed(), shards: make([]shard, min(size, maxShards))}
	m.perShard = size / len(m.shards)
	for i := range m.shards {
		m.shards[i].buckets = make(map[string]*bucket)
	}
	return m
}

// Len returns the number of keys remembered.
func (m *Memory) Len() int {
	n := 0
	for i := range m.shards {
		m.shards[i].mu.Lock()
		n += len(m.shards[i].buckets)
		m.shards[i].mu.Unlock()
	}
	return n
}

// claim is what one call wants of one bucket.
type claim struct {
	shard  uint64
	index  int // of the Bucket in the call
	bucket *bucket
	tokens int
}

// Take implements Limiter. It does not wait, so it needs nothing of the context.
func (m *Memory) Take(_ context.Context, buckets ...Bucket) error {
	var room [8]claim
	claims, set := room[:0], uint64(0)
	for i := range buckets {
		if !buckets[i].possible() {
			return &ExceededError{Bucket: i}
		}
		index := maphash.String(m.seed, buckets[i].Key) % uint64(len(m.shards))
		claims = append(claims, claim{shard: index, index: i, tokens: buckets[i].tokens()})
		set |= 1 << index
	}
	m.lock(set)
	defer m.unlock(set)
	now := time.Now() // with the locks held, so that no bucket sees time go backwards
	for i := range claims {
		c := &claims[i]
		c.bucket = m.shards[c.shard].claim(&buckets[c.index], now, m.perShard)
	}
	return settle(mergeClaims(claims), now)
}

// lock locks the shards of the set in order, so that two calls never wait for each other.
func (m *Memory) lock(set uint64) {
	for ; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(set)].mu.Lock()
	}
}

func (m *Memory) unlock(set uint64) {
	for ; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(set)].mu.Unlock()
	}
}

// mergeClaims adds up the claims on the same bucket.
func mergeClaims(claims []claim) []claim {
	merged := claims[:0]
next:
	for _, c := range claims {
		for i := range merged {
			if merged[i].bucket == c.bucket {
				merged[i].tokens += c.tokens
				continue next
			}
		}
		merged = append(merged, c)
	}
	return merged
}

// settle takes what is claimed if every bucket has enough, and ends the claims.
func settle(claims []claim, now time.Time) error {
	var exceeded *ExceededError
	for i := range claims {
		c := &claims[i]
		c.bucket.claimed = false
		wait, ok := c.bucket.wait(c.tokens, now)
		if !ok && (exceeded == nil || exceeded.RetryAfter > 0 && (wait == 0 || wait > exceeded.RetryAfter)) {
			exceeded = &ExceededError{Bucket: c.index, RetryAfter: wait}
		}
	}
	if exceeded != nil {
		return exceeded
	}
	for i := range claims {
		claims[i].bucket.limiter.AllowN(now, claims[i].tokens)
	}
	return nil
}

// wait tells whether the bucket has so many tokens, and if not when it will have them; 0 is never.
func (b *bucket) wait(tokens int, now time.Time) (time.Duration, bool) {
	if tokens > b.limit.Burst {
		return 0, false
	}
	missing := float64(tokens) - b.limiter.TokensAt(now)
	seconds := missing / b.limit.Rate
	if seconds*float64(time.Second) < 1 { // as rate.Limiter rounds
		return 0, true
	}
	if seconds > maxRetry.Seconds() {
		return maxRetry, false
	}
	return max(time.Duration(seconds*float64(time.Second)), minRetry), false
}

// claim returns the bucket that want names, made or adapted to its limit.
func (s *shard) claim(want *Bucket, now time.Time, size int) *bucket {
	limit := rate.Limit(min(want.Limit.Rate, math.MaxFloat64)) // rate.Inf for infinity
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

// forget drops the full ones among some buckets, or else the fullest. It returns false when it found none to drop.
func (s *shard) forget(now time.Time) bool {
	victim, most, looked, dropped := "", -1.0, 0, false
	for key, b := range s.buckets { // in random order
		if b.claimed {
			continue
		}
		full := b.limiter.TokensAt(now) / float64(b.limit.Burst)
		if full >= 1 {
			delete(s.buckets, key)
			dropped = true
		} else if full > most {
			victim, most = key, full
		}
		if looked++; looked == sampleSize {
			break
		}
	}
	if dropped || most < 0 {
		return dropped
	}
	delete(s.buckets, victim)
	return true
}
