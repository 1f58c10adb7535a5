package ratelimit_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// TestTakeConcurrently shows that many at once get exactly the burst, whatever the order
// of their buckets, and that the refused ones cost nobody anything.
func TestTakeConcurrently(t *testing.T) {
	t.Parallel()
	l := ratelimit.NewMemory(0)
	limit := func(burst int) ratelimit.Limit { return ratelimit.Limit{Rate: 1e-9, Burst: burst} }
	tenant := ratelimit.Bucket{Key: "tenant", Limit: limit(1000)}
	var allowed atomic.Int64
	var group sync.WaitGroup
	for worker := range 16 {
		user := ratelimit.Bucket{Key: "user" + strconv.Itoa(worker), Limit: limit(50)}
		group.Go(func() {
			for i := range 200 {
				buckets := []ratelimit.Bucket{tenant, user}
				if i%2 == 0 {
					buckets[0], buckets[1] = user, tenant
				}
				if l.Take(t.Context(), buckets...) == nil {
					allowed.Add(1)
				}
			}
		})
	}
	group.Wait()
	if n := allowed.Load(); n != 16*50 {
		t.Errorf("%d taken, want %d", n, 16*50)
	}
	if n := taken(t, l, tenant); n != 1000-16*50 {
		t.Errorf("%d left, want %d", n, 1000-16*50)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 10, 100, 1000} {
		l := ratelimit.NewMemory(size)
		for i := range 20 * size {
			b := ratelimit.Bucket{Key: strconv.Itoa(i), Limit: ratelimit.Limit{Rate: 1e-6, Burst: 2}}
			if refusal := exceeded(t, l, b); refusal != nil {
				t.Fatalf("a new key was refused: %v", refusal)
			}
		}
		if n := l.Len(); n > size || n == 0 {
			t.Errorf("%d keys remembered, want at most %d", n, size)
		}
	}
}

// TestFullBucketsAreForgotten shows that users who do not come back leave nothing behind,
// however many they were, and that those who are at their limit are remembered.
func TestFullBucketsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimit.NewMemory(0)
		limit := ratelimit.Limit{Rate: 10, Burst: 20}
		empty := ratelimit.Bucket{Key: "empty", Limit: ratelimit.Limit{Rate: 1e-6, Burst: 5}}
		if n := taken(t, l, empty); n != 5 {
			t.Fatalf("%d taken, want 5", n)
		}
		for i := range 20_000 {
			b := ratelimit.Bucket{Key: strconv.Itoa(i), Limit: limit}
			if refusal := exceeded(t, l, b); refusal != nil {
				t.Fatalf("a new key was refused: %v", refusal)
			}
			time.Sleep(10 * time.Millisecond) // so ten of them are not full at a time
		}
		if n := l.Len(); n > 2000 {
			t.Errorf("%d keys remembered of 20,000, though hardly any bucket lacks a token", n)
		}
		if refusal := exceeded(t, l, empty); refusal == nil {
			t.Error("the empty bucket was forgotten")
		}
	})
}

// TestFewBucketsAreKept has three buckets refill between calls, which need not make them
// anew.
func TestFewBucketsAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimit.NewMemory(0)
		for range 10 {
			for _, key := range []string{"requests", "calls", "user"} {
				_ = exceeded(t, l, ratelimit.Bucket{Key: key, Limit: ratelimit.Limit{Rate: 10, Burst: 20}})
				time.Sleep(time.Minute)
			}
		}
		if n := l.Len(); n != 3 {
			t.Errorf("%d keys remembered, want 3", n)
		}
	})
}

// TestFullBucketsAreForgottenFirst shows that a flood of keys does not reset a bucket
// that is in use.
func TestFullBucketsAreForgottenFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := ratelimit.NewMemory(640)
		empty := ratelimit.Bucket{Key: "empty", Limit: ratelimit.Limit{Rate: 1e-6, Burst: 5}}
		if n := taken(t, l, empty); n != 5 {
			t.Fatalf("%d taken, want 5", n)
		}
		for i := range 50_000 {
			_ = exceeded(t, l, ratelimit.Bucket{
				Key:   fmt.Sprint("flood", i),
				Limit: ratelimit.Limit{Rate: 1, Burst: 100},
			})
			if i%100 == 0 {
				time.Sleep(time.Second)
			}
		}
		if refusal := exceeded(t, l, empty); refusal == nil {
			t.Error("the empty bucket was forgotten")
		}
	})
}

func BenchmarkTakeThree(b *testing.B) {
	l := ratelimit.NewMemory(0)
	limit := ratelimit.Limit{Rate: 1e9, Burst: 1 << 30}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		buckets := []ratelimit.Bucket{
			{Key: "acme", Limit: limit},
			{Key: "acme\x00issuer\x00alice", Limit: limit},
			{Key: "acme\x00github__search", Limit: limit},
		}
		for pb.Next() {
			if err := l.Take(b.Context(), buckets...); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkTakeNewKeys(b *testing.B) {
	l := ratelimit.NewMemory(10_000)
	limit := ratelimit.Limit{Rate: 1, Burst: 10}
	i := 0
	for b.Loop() {
		i++
		if err := l.Take(b.Context(), ratelimit.Bucket{Key: strconv.Itoa(i), Limit: limit}); err != nil {
			b.Fatal(err)
		}
	}
}
