package ratelimit

import (
	"cmp"
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/drawbridge-mcp/drawbridge/internal/evict"
)

const (
	defaultSize = 100_000
	fewPart     = 64               // from the size divided by this on, full buckets are forgotten
	sampleSize  = 8                // buckets that are looked at to find some to forget
	minRetry    = time.Millisecond // the shortest RetryAfter: rounded down to zero it would mean never
	// the longest RetryAfter: a tiny Rate gives seconds that overflow a Duration
	maxRetry = 365 * 24 * time.Hour
)

// Memory is a Limiter in the memory of this process, bounded in its number of keys. It is
// safe for concurrent use.
//
// Its one lock is held from the look to the taking. The other way, to take of each bucket
// and to give back if one refuses, would be wrong: calls that are refused would eat the
// tokens of those which are allowed.
type Memory struct {
	size int // the most keys that are remembered

	mu      sync.Mutex // guards the field below and the buckets in it
	buckets map[string]*bucket
}

var _ Limiter = (*Memory)(nil)

// NewMemory returns a limiter that remembers at most size keys; zero means 100,000. A
// bucket that is forgotten starts full when its key comes back. So where there are more
// than a few, full ones are forgotten, because for them that changes nothing: what is
// remembered is of those who come now, and not of all who ever came. If there are too
// many, those go that are nearly full. A flood of new keys, which an attacker can cause,
// therefore hardly refills the bucket of somebody who is at the limit.
func NewMemory(size int) *Memory {
	return &Memory{size: cmp.Or(size, defaultSize), buckets: make(map[string]*bucket)}
}

// Take implements Limiter. It waits for nothing but the lock, so it does not look at the
// context. Its only errors are *ExceededError.
func (m *Memory) Take(_ context.Context, buckets ...Bucket) error {
	// both spare calls with few buckets, which nearly all have, an allocation
	var wanted [8]want
	var found [8]*bucket
	wants, never := merge(buckets, wanted[:0])
	if never != nil {
		return never
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	// The time is taken with the lock held. Taken before, it could be older than the time
	// that another call has put into a bucket meanwhile, and the bucket would see time go
	// backwards.
	now, all := time.Now(), found[:0]
	var refused *ExceededError
	for i := range wants {
		w := &wants[i]
		b := m.bucketLocked(w.Bucket, now)
		all = append(all, b)
		wait, enough := w.Limit.wait(w.tokens, b.has(now))
		refused = longer(refused, b.view(now, 0, 1).refusal(w, wait, enough))
	}
	if refused != nil {
		return refused
	}
	for i, b := range all {
		w := &wants[i]
		b.owe(w, b.view(now, 0, 1))
		b.limiter.AllowN(now, w.tokens)
		if m.buckets[w.Key] == nil {
			m.rememberLocked(w.Key, b, now)
		}
	}
	return nil
}

// bucketLocked returns the bucket that a call names, and adapts one that had another
// limit. One that is not there is full; it is remembered when something was taken of it.
func (m *Memory) bucketLocked(of *Bucket, now time.Time) *bucket {
	b := m.buckets[of.Key]
	switch {
	case b == nil:
		b = &bucket{limit: of.Limit, limiter: rate.NewLimiter(of.Limit.perSecond(), of.Limit.Burst)}
	case b.limit != of.Limit:
		b.limit = of.Limit
		b.limiter.SetLimitAt(now, of.Limit.perSecond())
		b.limiter.SetBurstAt(now, of.Limit.Burst)
	}
	return b
}

// rememberLocked remembers a bucket. Unless there are few, those of a sample are
// forgotten that are full and, if there is no room, the fullest: the fuller a bucket is,
// the less is lost with it. Were it done among few, each call would make its buckets
// anew, because those of a calm tenant are full again when the next one comes.
func (m *Memory) rememberLocked(key string, b *bucket, now time.Time) {
	if len(m.buckets) >= m.size/fewPart {
		evict.One(m.buckets, sampleSize, func(_ string, old *bucket) (worth float64, may bool) {
			return 1 - old.has(now)/float64(old.limit.Burst), len(m.buckets) >= m.size
		})
	}
	m.buckets[key] = b
}
