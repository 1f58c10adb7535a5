package redis_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// BenchmarkCall makes the calls that stand on the path of requests: one command, and a
// script of three keys. What each allocates counts; the time is mostly that of the
// server.
func BenchmarkCall(b *testing.B) {
	store := redistest.Start(b).Store(b)
	ctx := b.Context()
	b.Run("command", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := store.Do(ctx, redis.Command{
				Name: "SET", Key: redis.Key("acme", "bench", "k"),
				Args: []string{"v", "PX", "1000"},
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("script", func(b *testing.B) {
		script := redis.NewScript("return {1}")
		keys := []string{redis.Key("a", "1"), redis.Key("a", "2"), redis.Key("a", "3")}
		args := []string{"1", "2", "3", "4", "5", "6", "7", "8"}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := script.Run(ctx, store, keys, args); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pair", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := store.DoAll(ctx, redis.Command{Name: "GET", Key: redis.Key("acme", "bench", "k")},
				redis.Command{Name: "GET", Key: redis.Key("acme", "bench", "k")}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
