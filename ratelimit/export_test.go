package ratelimit

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// givenClock takes the place of clock.lua: the time is the last argument, and no key is
// forgotten, since the time of the test is not that by which the server forgets.
const givenClock = `
local now = tonumber(ARGV[#ARGV])
local function expire() end
`

// NewRedisAt returns a Redis to which it is that time, also on the server. away runs a
// function where it may wait for the network, outside the bubble of a test.
func NewRedisAt(cfg RedisConfig, now func() time.Time, away func(func())) *Redis {
	r := NewRedis(cfg)
	r.now = now
	r.trip = givenTrip(cfg.Store, now, away)
	return r
}

func givenTrip(store *redis.Store, now func() time.Time, away func(func())) trip {
	run := newTrip(store, givenClock)
	return func(_ context.Context, keys, args []string) (reply redis.Reply, err error) {
		args = append(args, strconv.FormatInt(now().UnixMicro(), 10))
		away(func() { reply, err = run(context.Background(), keys, args) })
		return reply, err
	}
}

// Trips are round trips that were made.
type Trips struct {
	All    atomic.Int64
	Waited atomic.Int64 // with a context that has the value Waits{}
}

// Waits is the key of a context that tells which trips a call waits for.
type Waits struct{}

// Counted makes l count its round trips.
func Counted(l *Redis) *Trips {
	n := &Trips{}
	next := l.trip
	l.trip = func(ctx context.Context, keys, args []string) (redis.Reply, error) {
		n.All.Add(1)
		if ctx.Value(Waits{}) != nil {
			n.Waited.Add(1)
		}
		return next(ctx, keys, args)
	}
	return n
}

// Before makes l call f with the keys of each round trip before that begins.
func Before(l *Redis, f func(keys []string)) {
	next := l.trip
	l.trip = func(ctx context.Context, keys, args []string) (redis.Reply, error) {
		f(keys)
		return next(ctx, keys, args)
	}
}

// After makes l call f after each round trip, before its answer is there.
func After(l *Redis, f func()) {
	next := l.trip
	l.trip = func(ctx context.Context, keys, args []string) (redis.Reply, error) {
		defer f()
		return next(ctx, keys, args)
	}
}

// KeyOf returns the key under which a bucket is kept.
func KeyOf(b Bucket) string { return keyOf(&b) }

// Ahead returns how many tokens are taken ahead of their use now, of all buckets
// together.
func (r *Redis) Ahead() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum, now := 0, r.now()
	for _, l := range r.prefetches {
		sum += l.available(now)
	}
	return sum
}

// Len returns how many keys are remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.buckets)
}
