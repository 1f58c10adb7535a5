// Package ratelimit answers: may it take one more? It counts under opaque keys and knows nothing of tenants or tools.
package ratelimit

import (
	"context"
	"fmt"
	"time"
)

// Limit is how often something may happen: Rate a second in the long run, Burst at once. A Limit whose Rate or Burst
// is not positive lets nothing through, so the zero Limit does not.
type Limit struct {
	Rate  float64 // per second
	Burst int
}

// Bucket is one count to take from.
type Bucket struct {
	Key   string // injective: whoever builds it keeps tenants apart
	Limit Limit  // may differ from call to call, as after a reload
	N     int    // tokens to take; zero means 1
}

// ExceededError says which bucket had too few tokens and when it will have them. Of several such buckets it is the one
// that takes longest. RetryAfter is 0 when it never will (N over Burst, or a Limit that lets nothing through).
type ExceededError struct {
	Bucket     int // index into the buckets of the call
	RetryAfter time.Duration
}

func (e *ExceededError) Error() string {
	return fmt.Sprintf("limit of bucket %d exceeded, retry after %s", e.Bucket, e.RetryAfter)
}

// Limiter counts.
type Limiter interface {
	// Take takes from every bucket or from none. *ExceededError: one had too few. Any other error: the counts are not known.
	Take(ctx context.Context, buckets ...Bucket) error
}

// tokens returns how many tokens b takes.
func (b *Bucket) tokens() int { return max(b.N, 1) }

// possible tells whether b can ever be taken.
func (b *Bucket) possible() bool {
	return b.Limit.Rate > 0 && b.tokens() <= b.Limit.Burst
}
