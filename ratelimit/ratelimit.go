// Package ratelimit answers: how often may this happen? It counts under keys that its
// callers choose, and deliberately does not know what a key stands for: it has never
// heard of tenants, users or tools. How many may happen at the same time is not its
// question; that is package share's.
//
// A Limiter is a set of token buckets. This file defines it, memory.go implements it for
// one process, and redis.go for several that share buckets on a server; prefetches.go
// takes tokens of those ahead. bucket.go has what is known of a bucket, and the rule by
// which its sharers are kept from taking all of it.
package ratelimit

import (
	"context"
	"fmt"
	"time"
)

// Limit is the size and speed of one token bucket. A bucket starts with Burst tokens,
// regains Rate tokens a second, and never holds more than Burst. So Burst is how many
// things may happen at once, and Rate how many a second in the long run. A Limit whose
// Rate or Burst is not positive lets nothing through. The zero Limit is such a limit:
// whoever forgets to set one forbids, instead of allowing everything.
type Limit struct {
	Rate  float64 // tokens per second
	Burst int     // tokens
}

// Bucket names one token bucket and says how much a call takes from it.
type Bucket struct {
	// Key names the bucket. Two things that must not share tokens need different keys, so
	// a key that is put together from names of tenants or tools must be injective: no two
	// combinations of names may give the same text.
	Key string
	// Limit may differ from one call to the next, for example after a config reload. The
	// bucket then keeps its tokens, as far as they fit the new Burst.
	Limit Limit
	N     int // tokens to take; zero means 1
	// Sharer names who takes, if the bucket has several who share it, such as the users
	// of a tenant. None of them can then take what the others need: one alone gets half
	// of Burst at once and all of Rate in the long run, and one who was quiet finds
	// tokens at once, whatever up to 15 others do; see bucket.go. Empty: the bucket
	// belongs to whoever comes first. In one call, all buckets with the same Key have the
	// same Sharer.
	Sharer string
	// Group names what keeps together the buckets of one call where they are spread over
	// several nodes. All buckets of a call have the same, and nothing else is in its
	// words than what can be in the id of a tenant.
	Group string
}

// ExceededError says which bucket had too few tokens, and when it will have enough. If
// several buckets had too few, it names the one that takes longest, so that a client
// which waits for RetryAfter is not refused by another of them at once. A RetryAfter of 0
// does not mean "at once" but never: N is larger than Burst or than a share of it, or the
// Limit lets nothing through.
type ExceededError struct {
	Bucket int // index into the buckets of the call
	// Share tells that the bucket has tokens, or will have them sooner, but that its
	// Sharer has taken its share of them.
	Share      bool
	RetryAfter time.Duration
}

func (e *ExceededError) Error() string {
	return fmt.Sprintf("limit of bucket %d exceeded, retry after %s", e.Bucket, e.RetryAfter)
}

// Limiter is a set of token buckets. Implementations are safe for concurrent use.
type Limiter interface {
	// Take takes the tokens of all buckets or, if one of them has too few, of none: a
	// call that the limit of a tool refuses must not use up the tenant's tokens as well.
	// An *ExceededError says that a bucket had too few. Any other error means that the
	// counts could not be read, so that it is not known whether the limit was reached;
	// nothing was allowed then. Take does not keep buckets.
	Take(ctx context.Context, buckets ...Bucket) error
}

// tokens returns how many tokens b takes.
func (b *Bucket) tokens() int { return max(b.N, 1) }

// never returns the refusal of what no bucket of this limit ever has, or no sharer may
// ever take, of the Bucket at that index; nil for none.
func (l Limit) never(tokens int, sharer string, index int) *ExceededError {
	switch {
	case !(l.Rate > 0) || tokens > l.Burst:
		return &ExceededError{Bucket: index}
	case tokens > l.most(sharer):
		return &ExceededError{Bucket: index, Share: true}
	}
	return nil
}

// want is what one call takes of one bucket: a Bucket, or several with the same key.
type want struct {
	*Bucket

	index  int // of the first Bucket
	tokens int // of all together

	// Of a Redis.
	prefetch *prefetch
	short    bool // the prefetch has too few
	aside    int  // tokens of the prefetch that are kept for this call during its trip
}

// merge adds up what goes to the same bucket: compared one by one with the tokens that
// there are, several could take more together. It returns the refusal of the first that
// never has so many, nil for none. buffer spares an allocation.
func merge(buckets []Bucket, buffer []want) ([]want, *ExceededError) {
next:
	for i := range buckets {
		b := &buckets[i]
		for k := range buffer {
			if w := &buffer[k]; w.Key == b.Key && w.Group == b.Group {
				w.Bucket, w.tokens = b, w.tokens+b.tokens()
				continue next
			}
		}
		buffer = append(buffer, want{Bucket: b, index: i, tokens: b.tokens()})
	}
	for _, w := range buffer {
		if never := w.Limit.never(w.tokens, w.Sharer, w.index); never != nil {
			return nil, never
		}
	}
	return buffer, nil
}

// longer returns the refusal that holds for longer; one of them may be nil.
func longer(a, b *ExceededError) *ExceededError {
	if a == nil || b != nil && b.RetryAfter > a.RetryAfter {
		return b
	}
	return a
}
