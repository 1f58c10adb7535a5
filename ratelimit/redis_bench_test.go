package ratelimit_test

import (
	"fmt"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// ofACall are the buckets of a call of a tool that has a limit of its own.
func ofACall(user string) []ratelimit.Bucket {
	limit := ratelimit.Limit{Rate: 1e6, Burst: 1 << 30}
	return []ratelimit.Bucket{
		{Key: "calls\x00acme", Group: "acme", Limit: limit, Sharer: user},
		{Key: user, Group: "acme", Limit: limit},
		{Key: "tool\x00acme\x00*\x00github__search", Group: "acme", Limit: limit, Sharer: user},
	}
}

// BenchmarkTake takes for as many calls at once, of tenant, user and tool.
func BenchmarkTake(b *testing.B) {
	store := redistest.Start(b).Store(b)
	for name, l := range map[string]ratelimit.Limiter{
		"memory": ratelimit.NewMemory(0), "redis": prefetched(b, store),
	} {
		for _, callers := range []int{1, 16, 64} {
			b.Run(fmt.Sprint(name, "/", callers), func(b *testing.B) {
				take(b, l, callers, ofACall)
			})
		}
	}
}

// prefetched returns the limiter of a replica.
func prefetched(b *testing.B, store *redis.Store) *ratelimit.Redis {
	b.Helper()
	l := ratelimit.NewRedis(ratelimit.RedisConfig{Store: store, Replica: "me", Replicas: 3})
	return l
}

// take lets as many callers take at the same time.
func take(b *testing.B, l ratelimit.Limiter, callers int, buckets func(user string) []ratelimit.Bucket) {
	b.ReportAllocs()
	b.SetParallelism(callers)
	b.RunParallel(func(pb *testing.PB) {
		own := buckets("user\x00acme\x00https://login.example/\x00alice")
		for pb.Next() {
			if err := l.Take(b.Context(), own...); err != nil {
				b.Fatal(err)
			}
		}
	})
}
