package ratelimit

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// RedisConfig is what a Redis needs. Only Store and Replica must be set.
type RedisConfig struct {
	Store   *redis.Store
	Replica string // a name that no other replica has
	// Replicas is how many replicas there are at most: while the server does not answer,
	// each allows that part of every limit. Zero: 1.
	Replicas int
	Local    func() // is called for each Take that was decided that way; nil: nobody counts them
}

// Redis is a Limiter whose buckets all replicas share. It takes tokens ahead of their
// use, so that hardly any call waits for a round trip. It is safe for concurrent use.
//
//	Take ──▶ is a refusal known? ──▶ a token of the prefetch of each bucket ──▶ few are left: the prefetches are filled
//	                                        │ a prefetch has none
//	                                        ▼
//	                              one trip for all such prefetches, for which others wait, too
//	                                        │ no answer
//	                                        ▼
//	                              the part of this replica (Memory)
//
// A prefetch is tokens that the bucket no longer has. The bucket remembers who has how
// many, and holds no more than what is missing to Burst then: so all replicas together
// allow never more than Burst at once, and Rate in the long run. What a replica does not
// use within prefetchLife is lost, and comes back with the rate. A prefetch is as large
// as what was used lately, and the prefetches of all replicas together are at most an
// eighth of Burst. So of a bucket with a Burst below 8 × Replicas none is taken ahead,
// and each Take is a trip; those of a bucket that nobody shares do not wait for each
// other. Nothing is taken ahead of the reserve for the quiet; see bucket.go.
//
// What a sharer owes is counted by each replica for itself, and what the bucket lacks is
// known as of the last trip. At each replica a sharer counts as quiet that owes
// 1/Replicas of what it may owe to a bucket of Memory, or two tokens: so the reserve is
// enough for as many who are quiet as there, or for Burst/(8 × Replicas) if those are
// fewer. One who is alone and spreads its calls over replicas may take somewhat more than
// half of Burst at once, but nothing of the reserve.
//
// The server's own clock decides, so the clocks of replicas do not matter. Every key
// there has a time to live. What somebody else has written there counts as an empty
// bucket. After a failover or a flush, what was lost is full again: at most one burst.
//
// While the server does not answer, a replica uses up its prefetches, and then allows
// Limit/Replicas by itself. The rate is divided exactly, the burst is rounded down, but
// to no less than one token: less would refuse everything. Those buckets are full at the
// beginning, and so are those of the server when it comes back after some time, so each
// of the two changes may allow one burst more than the limit: of all replicas together
// max(Burst, Replicas).
type Redis struct {
	config RedisConfig
	now    func() time.Time
	trip   trip
	memory *Memory // of the part of this replica

	mu         sync.Mutex // guards the fields below, and all prefetches; never held during a trip
	prefetches map[string]*prefetch
}

var _ Limiter = (*Redis)(nil)

// NewRedis returns a limiter of buckets on the server.
func NewRedis(cfg RedisConfig) *Redis {
	cfg.Replicas = max(cfg.Replicas, 1)
	if cfg.Local == nil {
		cfg.Local = func() {}
	}
	return &Redis{
		config: cfg, now: time.Now, trip: newTrip(cfg.Store, clockText), memory: NewMemory(0),
		prefetches: make(map[string]*prefetch),
	}
}

// ask returns what a trip asks for a prefetch that has too few tokens, all of which will
// be kept aside.
func (w *want) ask(now time.Time) ask {
	a := ask{
		prefetch: w.prefetch, need: w.tokens - w.aside, owed: -1, ahead: w.prefetch.ahead(now),
		prefetched: w.prefetch.all(now),
	}
	if v := w.prefetch.view(now); !v.isQuiet(w) {
		a.owed = v.owes(w.Sharer) + float64(w.aside)
	}
	return a
}

// Take implements Limiter, in one round trip or none, beside those of others that it
// waits for. It returns the error of ctx if that ends meanwhile; all others are
// *ExceededError.
func (r *Redis) Take(ctx context.Context, buckets ...Bucket) error {
	var buffer [8]want
	wants, never := merge(buckets, buffer[:0])
	if never != nil {
		return never
	}
	for ctx.Err() == nil {
		r.mu.Lock()
		now := r.now()
		refused, short, trip := r.peekLocked(wants, now)
		switch {
		case refused != nil:
			r.mu.Unlock()
			return refused
		case !short:
			r.takeLocked(wants, now)
			r.mu.Unlock()
			return nil
		case trip != nil:
			r.mu.Unlock()
			_ = pace.Await(ctx, trip) // or ctx has ended, as is seen above
			continue
		}
		err := r.fetchLocked(ctx, wants, now)
		r.mu.Unlock()
		if err == nil || errors.As(err, new(*ExceededError)) {
			return err
		}
		return r.locally(ctx, buckets)
	}
	return context.Cause(ctx)
}

// peekLocked finds the prefetch of each bucket. It returns the refusal that is known to
// come, of the bucket that takes longest, and tells whether a prefetch has too few
// tokens. trip is one that is under way for such a prefetch, nil if there is none.
func (r *Redis) peekLocked(wants []want, now time.Time) (refused *ExceededError, short bool,
	trip <-chan struct{},
) {
	for i := range wants {
		w := &wants[i]
		w.prefetch = r.prefetchLocked(w.Bucket, now)
		refused = longer(refused, w.prefetch.refuse(w, w.prefetch.available(now), now))
		if w.short = w.prefetch.available(now) < w.tokens; w.short {
			short = true
			if w.prefetch.trip != nil {
				trip = w.prefetch.trip
			}
		}
	}
	return refused, short, trip
}

// takeLocked takes what is wanted from the prefetches, which have enough, and has those
// filled with few tokens left.
func (r *Redis) takeLocked(wants []want, now time.Time) {
	for i := range wants {
		w := &wants[i]
		w.prefetch.owe(w, w.prefetch.view(now))
		w.prefetch.tokens -= w.tokens
	}
	r.fillLocked(wants, now)
}

// fetchLocked makes the trip for the prefetches that have too few tokens, and takes what
// is wanted from all. The tokens that the prefetches have are kept aside meanwhile. The
// lock is not held during the trip.
func (r *Redis) fetchLocked(ctx context.Context, wants []want, now time.Time) error {
	var buffer [8]ask
	asks := buffer[:0]
	for i := range wants {
		w := &wants[i]
		w.aside = min(w.prefetch.available(now), w.tokens)
		if w.short {
			asks = append(asks, w.ask(now))
		}
		w.prefetch.tokens -= w.aside
		w.prefetch.aside += w.aside
	}
	taken, err := r.goLocked(ctx, asks, beginLocked(asks), now)
	then := r.now()
	var refused *ExceededError
	for i := range wants {
		w := &wants[i]
		w.prefetch.aside -= w.aside
		if taken { // what was taken is missing by now, and was not when it was asked for
			v := w.prefetch.bucket.view(then, w.prefetch.available(then)+w.tokens, w.prefetch.replicas)
			w.prefetch.owe(w, v)
			continue
		}
		if then.Before(w.prefetch.until) {
			w.prefetch.tokens += w.aside
		}
		if w.short && err == nil {
			refused = longer(refused, w.prefetch.refuse(w, w.aside+asks[0].got, then))
			asks = asks[1:]
		}
	}
	if taken || err != nil {
		return err
	}
	// nil: rounding hides here what the script has found
	return cmp.Or(refused, &ExceededError{RetryAfter: minRetry})
}

// beginLocked notes that a trip for those asks is under way until over is closed, where
// others have to wait for it.
func beginLocked(asks []ask) (over chan struct{}) {
	over = make(chan struct{})
	for i := range asks {
		a := &asks[i]
		if a.limit = a.prefetch.limit; a.prefetch.inTurn() {
			a.prefetch.trip = over
		}
	}
	return over
}

// goLocked makes a round trip that has begun, and puts into the prefetches what it has
// brought ahead. It tells whether what is needed was taken. The lock is not held during
// the trip.
func (r *Redis) goLocked(ctx context.Context, asks []ask, over chan struct{}, now time.Time) (taken bool,
	err error,
) {
	keys, args := terms(r.config.Replica, asks)
	r.mu.Unlock()
	reply, err := r.trip(ctx, keys, args)
	if err == nil {
		taken, err = readAnswer(reply, asks)
	}
	r.mu.Lock()
	close(over)
	for i := range asks {
		a := &asks[i]
		if a.prefetch.trip == over {
			a.prefetch.trip = nil
		}
		if err == nil && a.prefetch.limit == a.limit {
			// of before the trip, so that the server lets the prefetch live longer than
			// the replica does
			a.prefetch.add(a, now, r.now())
		}
	}
	return taken, err
}

// locally decides by the part of this replica, because the server did not. What the whole
// bucket would have takes no more than the part ever has, or it would be refused for as
// long as the server is away.
func (r *Redis) locally(ctx context.Context, buckets []Bucket) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.config.Local()
	var buffer [8]Bucket
	shares := buffer[:0]
	for _, b := range buckets {
		b.Limit = b.Limit.among(r.config.Replicas)
		b.N = min(b.tokens(), b.Limit.most(b.Sharer))
		shares = append(shares, b)
	}
	return r.memory.Take(ctx, shares...)
}

// among returns the part of the limit that each of that many replicas allows by itself.
func (l Limit) among(replicas int) Limit {
	return Limit{Rate: l.Rate / float64(replicas), Burst: max(l.Burst/replicas, 1)}
}
