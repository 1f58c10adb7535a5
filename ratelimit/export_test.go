package ratelimit

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
)

// givenClock takes the place of clock.lua: the time is the last argument, and no key is forgotten, since the time of the
// test is not that by which the server forgets.
const givenClock = `
local now = tonumber(ARGV[#ARGV])
local function keep(key, text, seconds) redis.call('SET', key, text) end
local function expire() end
`

// NewRedisAt returns a Redis to which it is that time, also on the server. away runs a function where it may wait for the
// network, outside the bubble of a test.
func NewRedisAt(cfg RedisConfig, now func() time.Time, away func(func())) *Redis {
	r := NewRedis(cfg)
	r.now = now
	r.take, r.lease = givenTrip(cfg.Store, takeText, now, away), givenTrip(cfg.Store, leaseText, now, away)
	return r
}

func givenTrip(store *redis.Store, text string, now func() time.Time, away func(func())) trip {
	run := newTrip(store, givenClock, text)
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
	counted := func(next trip) trip {
		return func(ctx context.Context, keys, args []string) (redis.Reply, error) {
			n.All.Add(1)
			if ctx.Value(Waits{}) != nil {
				n.Waited.Add(1)
			}
			return next(ctx, keys, args)
		}
	}
	l.take, l.lease = counted(l.take), counted(l.lease)
	return n
}

// KeysOf returns the keys under which a bucket, and the part of its sharer, are kept.
func KeysOf(b Bucket) []string {
	keys, _ := terms([]want{{Bucket: &b, tokens: 1}})
	return keys
}

// LeaseKeyOf returns the key under which a bucket of leases is kept.
func LeaseKeyOf(b Bucket) string { return leaseKey(&want{Bucket: &b}) }
