package ratelimit

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// RedisConfig is what a Redis needs. Only Store must be set.
type RedisConfig struct {
	Store *redis.Store
	// Replicas is how many replicas there are at most: while the server does not answer, each allows that part of every
	// limit. Zero: 1.
	Replicas int
	Local    func()       // is called for each Take that was decided that way; nil: nobody counts them
	Logger   *slog.Logger // nil: none
}

// Redis is a Limiter whose buckets all replicas share. It is safe for concurrent use.
//
//	Take ──▶ is it known to be refused? ──▶ one script on the server ──▶ taken, or refused
//	                  refusals                       │ no answer
//	                                                 ▼
//	                                      the share of this replica (Memory)
//
// A call that is refused for some time costs no further trip until that time is over; see refusals. The server's own
// clock decides, so the clocks of replicas do not matter. Every key there has a time to live: that after which a bucket
// is full again, or what a sharer owes has faded. What somebody else has written there counts as an empty bucket, and as
// a share that is used up. After a failover or a flush, what was lost is full again: at most one burst.
//
// While the server does not answer, a replica allows Limit/Replicas by itself. The rate is divided exactly, the burst is
// rounded down, but to no less than one token: less would refuse everything. Those buckets are full at the beginning, and
// so are those of the server when it comes back after some time, so each of the two changes may allow one burst more than
// the limit: of all replicas together max(Burst, Replicas).
type Redis struct {
	config   RedisConfig
	now      func() time.Time
	take     trip
	lease    trip
	refusals *refusals
	memory   *Memory     // of the share of this replica
	alone    atomic.Bool // the last Take was decided by it
}

var _ Limiter = (*Redis)(nil)

// NewRedis returns a limiter of buckets on the server.
func NewRedis(cfg RedisConfig) *Redis {
	cfg.Replicas = max(cfg.Replicas, 1)
	if cfg.Local == nil {
		cfg.Local = func() {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Redis{
		config: cfg, now: time.Now, take: newTrip(cfg.Store, clockText, takeText), lease: newTrip(cfg.Store, clockText, leaseText),
		refusals: newRefusals(), memory: NewMemory(0),
	}
}

// Take implements Limiter, in one round trip or none. It returns the error of ctx if that ends meanwhile; all others are
// *ExceededError.
func (r *Redis) Take(ctx context.Context, buckets ...Bucket) error {
	if never := impossible(buckets); never != nil {
		return never
	}
	var room [8]want
	wants, never := merge(buckets, room[:0])
	if never != nil {
		return never
	}
	if len(wants) == 0 {
		return nil // a script that has no key belongs to no node of a cluster
	}
	now := r.now() // before the trip, so that nothing is refused for longer than it must be
	if refused := r.refusals.known(wants, now); refused != nil {
		return refused
	}
	keys, args := terms(wants)
	reply, err := r.take(ctx, keys, args)
	if err != nil {
		return r.locally(ctx, err, buckets)
	}
	var states [8]state
	ok, found, err := taken(reply, len(wants), states[:0])
	if err != nil {
		return r.locally(ctx, err, buckets)
	}
	r.answered(ctx)
	if ok {
		return nil
	}
	return r.refuse(wants, found, now)
}

// refuse returns the refusal that follows from the states of the buckets, for the one that takes longest, and remembers
// why.
func (r *Redis) refuse(wants []want, states []state, now time.Time) *ExceededError {
	var longest *ExceededError
	for i := range wants {
		w := &wants[i]
		var p *part
		if w.Sharer != "" {
			p = &part{owed: states[i].owed, at: now}
		}
		wait, share, ok := w.Limit.waitBoth(w.tokens, states[i].has, p, now)
		if ok {
			continue
		}
		wait = upToMicros(wait)
		r.refusals.note(w, share, wait, now)
		if longest == nil || wait > longest.RetryAfter {
			longest = &ExceededError{Bucket: w.index, Share: share, RetryAfter: wait}
		}
	}
	if longest == nil { // rounding hides here what the script has found
		return &ExceededError{RetryAfter: minRetry}
	}
	return longest
}

// upToMicros rounds up to what the server's clock can tell apart.
func upToMicros(d time.Duration) time.Duration {
	return (d + time.Microsecond - 1).Truncate(time.Microsecond)
}

// locally decides by the share of this replica, because the server did not.
func (r *Redis) locally(ctx context.Context, cause error, buckets []Bucket) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if r.alone.CompareAndSwap(false, true) {
		r.config.Logger.WarnContext(ctx, "limits are not shared now: this replica allows its part of them", slog.Any("error", cause), slog.Int("replicas", r.config.Replicas))
	}
	r.config.Local()
	var room [8]Bucket
	shares := room[:0]
	for _, b := range buckets {
		b.Limit = b.Limit.among(r.config.Replicas)
		shares = append(shares, b)
	}
	err := r.memory.Take(ctx, shares...)
	if exceeded, ok := errors.AsType[*ExceededError](err); ok && exceeded.RetryAfter == 0 {
		// The whole bucket would do, so this is not for ever: the client comes back when the part has gained so much.
		b := &shares[exceeded.Bucket]
		seconds := min(float64(b.tokens())/b.Limit.Rate, maxRetry.Seconds())
		exceeded.RetryAfter = max(time.Duration(seconds*float64(time.Second)), time.Second)
	}
	return err
}

// answered notes that the server decides again.
func (r *Redis) answered(ctx context.Context) {
	if r.alone.Load() && r.alone.CompareAndSwap(true, false) {
		r.config.Logger.InfoContext(ctx, "limits are shared again")
	}
}

// among returns the part of the limit that each of that many replicas allows by itself.
func (l Limit) among(replicas int) Limit {
	return Limit{Rate: l.Rate / float64(replicas), Burst: max(l.Burst/replicas, 1)}
}
