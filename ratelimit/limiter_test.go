package ratelimit_test

import (
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// implementations are the limiters that the suite in this file runs on. What they return
// is called in a bubble, where the clock is that of the test.
func implementations() map[string]func(testing.TB) func() ratelimit.Limiter {
	return map[string]func(testing.TB) func() ratelimit.Limiter{
		"memory": func(testing.TB) func() ratelimit.Limiter {
			return func() ratelimit.Limiter { return ratelimit.NewMemory(0) }
		},
		"redis": func(t testing.TB) func() ratelimit.Limiter {
			w := newWorld(t)
			return func() ratelimit.Limiter { return w.replica(1) }
		},
	}
}

func eachLimiter(t *testing.T, test func(t *testing.T, l ratelimit.Limiter)) {
	t.Parallel()
	for name, limiter := range implementations() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limiter := limiter(t)
			synctest.Test(t, func(t *testing.T) { test(t, limiter()) })
		})
	}
}

// exceeded takes and returns the refusal, nil when there was none.
func exceeded(t *testing.T, l ratelimit.Limiter, buckets ...ratelimit.Bucket) *ratelimit.ExceededError {
	t.Helper()
	err := l.Take(t.Context(), buckets...)
	var refusal *ratelimit.ExceededError
	if err != nil && !errors.As(err, &refusal) {
		t.Fatalf("Take: %v", err)
	}
	return refusal
}

// taken counts how often one token can be taken before the first refusal.
func taken(t *testing.T, l ratelimit.Limiter, b ratelimit.Bucket) int {
	t.Helper()
	for n := range 10_000 {
		if exceeded(t, l, b) != nil {
			return n
		}
	}
	t.Fatal("never refused")
	return 0
}

func TestTakeBurstThenRate(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		b := ratelimit.Bucket{Key: "a", Limit: ratelimit.Limit{Rate: 2, Burst: 5}}
		if n := taken(t, l, b); n != 5 {
			t.Errorf("%d taken at once, want 5", n)
		}
		refusal := exceeded(t, l, b)
		if refusal == nil || refusal.RetryAfter != 500*time.Millisecond {
			t.Fatalf("got %v, want a refusal for 500ms", refusal)
		}
		time.Sleep(refusal.RetryAfter)
		if n := taken(t, l, b); n != 1 {
			t.Errorf("%d taken after the time told, want 1", n)
		}
		time.Sleep(time.Hour)
		if n := taken(t, l, b); n != 5 {
			t.Errorf("%d taken after an hour, want 5", n)
		}
	})
}

func TestTakeSeveralAtOnce(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		b := ratelimit.Bucket{Key: "a", Limit: ratelimit.Limit{Rate: 1, Burst: 10}, N: 7}
		if refusal := exceeded(t, l, b); refusal != nil {
			t.Fatalf("7 of 10: %v", refusal)
		}
		if refusal := exceeded(t, l, b); refusal == nil || refusal.RetryAfter != 4*time.Second {
			t.Errorf("7 of 3: got %v, want a refusal for 4s", refusal)
		}
		b.N = 3
		if refusal := exceeded(t, l, b); refusal != nil {
			t.Errorf("3 of 3: %v", refusal)
		}
	})
}

// TestTakeOfNoBucket takes of no bucket at all, where a limiter on a server has no key to
// send.
func TestTakeOfNoBucket(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		if refusal := exceeded(t, l); refusal != nil {
			t.Errorf("got %v, want nothing refused", refusal)
		}
	})
}

func TestTakeFromAllOrNone(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		wide := ratelimit.Bucket{Key: "tenant", Limit: ratelimit.Limit{Rate: 0.001, Burst: 10}}
		narrow := ratelimit.Bucket{Key: "user", Limit: ratelimit.Limit{Rate: 0.001, Burst: 2}}
		for range 20 {
			_ = exceeded(t, l, wide, narrow)
		}
		if refusal := exceeded(t, l, narrow, wide); refusal == nil || refusal.Bucket != 0 {
			t.Errorf("got %v, want a refusal of bucket 0", refusal)
		}
		if n := taken(t, l, wide); n != 8 {
			t.Errorf("%d left in the wide bucket, want 8: refused calls took from it", n)
		}
	})
}

func TestTakeNamesTheLongestWait(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		buckets := []ratelimit.Bucket{
			{Key: "fast", Limit: ratelimit.Limit{Rate: 10, Burst: 1}},
			{Key: "slow", Limit: ratelimit.Limit{Rate: 0.1, Burst: 1}},
			{Key: "free", Limit: ratelimit.Limit{Rate: 10, Burst: 10}},
		}
		if refusal := exceeded(t, l, buckets...); refusal != nil {
			t.Fatal(refusal)
		}
		if refusal := exceeded(t, l, buckets...); refusal == nil || refusal.Bucket != 1 ||
			refusal.RetryAfter != 10*time.Second {
			t.Errorf("got %v, want a refusal of bucket 1 for 10s", refusal)
		}
		buckets = append(buckets, ratelimit.Bucket{Key: "shut"})
		if refusal := exceeded(t, l, buckets...); refusal == nil || refusal.Bucket != 3 ||
			refusal.RetryAfter != 0 {
			t.Errorf("got %v, want a refusal of bucket 3 for ever", refusal)
		}
	})
}

func TestTakeWhatCanNeverBe(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		for _, b := range []ratelimit.Bucket{
			{Key: "zero"},
			{Key: "no rate", Limit: ratelimit.Limit{Burst: 5}},
			{Key: "no burst", Limit: ratelimit.Limit{Rate: 5}},
			{Key: "negative", Limit: ratelimit.Limit{Rate: -1, Burst: -1}},
			{Key: "not a number", Limit: ratelimit.Limit{Rate: math.NaN(), Burst: 1}},
			{Key: "more than the burst", Limit: ratelimit.Limit{Rate: 5, Burst: 5}, N: 6},
		} {
			if refusal := exceeded(t, l, b); refusal == nil || refusal.RetryAfter != 0 {
				t.Errorf("%s: got %v, want a refusal for ever", b.Key, refusal)
			}
		}
	})
}

func TestTakeTheSameBucketTwice(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		b := ratelimit.Bucket{Key: "a", Limit: ratelimit.Limit{Rate: 1, Burst: 3}}
		if refusal := exceeded(t, l, b, b); refusal != nil {
			t.Fatal(refusal)
		}
		if refusal := exceeded(t, l, b, b); refusal == nil {
			t.Error("2 of 1 left: not refused")
		}
		if n := taken(t, l, b); n != 1 {
			t.Errorf("%d left, want 1", n)
		}
		if refusal := exceeded(t, l, b, b, b, b); refusal == nil || refusal.RetryAfter != 0 {
			t.Errorf("4 of a burst of 3: got %v, want a refusal for ever", refusal)
		}
	})
}

func TestTakeExtremeRates(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		for _, high := range []float64{math.Inf(1), math.MaxFloat64} {
			b := ratelimit.Bucket{Key: "unlimited", Limit: ratelimit.Limit{Rate: high, Burst: 1}}
			for range 100 {
				if refusal := exceeded(t, l, b); refusal != nil {
					t.Fatalf("rate %g: %v", high, refusal)
				}
			}
		}
		slow := ratelimit.Bucket{Key: "slow", Limit: ratelimit.Limit{Rate: 1e-300, Burst: 1}}
		_ = exceeded(t, l, slow)
		if refusal := exceeded(t, l, slow); refusal == nil || refusal.RetryAfter < 24*time.Hour {
			t.Errorf("got %v, want a refusal for a long time", refusal)
		}
	})
}

func TestLimitsFollowTheConfig(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		at := func(rate float64, burst int) ratelimit.Bucket {
			return ratelimit.Bucket{Key: "a", Limit: ratelimit.Limit{Rate: rate, Burst: burst}}
		}
		if n := taken(t, l, at(1, 10)); n != 10 {
			t.Fatalf("%d taken, want 10", n)
		}
		if refusal := exceeded(t, l, at(10, 100)); refusal == nil ||
			refusal.RetryAfter != 100*time.Millisecond {
			t.Errorf("a raised limit: got %v, want a refusal for 100ms", refusal)
		}
		time.Sleep(time.Minute)
		if n := taken(t, l, at(10, 100)); n != 100 {
			t.Errorf("%d taken of the raised limit, want 100", n)
		}
		time.Sleep(time.Minute)
		if n := taken(t, l, at(1, 3)); n != 3 {
			t.Errorf("%d taken of the lowered limit, want 3", n)
		}

		other := ratelimit.Bucket{Key: "b", Limit: ratelimit.Limit{Rate: 1, Burst: 10}}
		taken(t, l, other)
		other.Limit = ratelimit.Limit{Rate: 10, Burst: 100}
		taken(t, l, other)
		time.Sleep(time.Minute)
		other.Sharer = "alice"
		if n, most := taken(t, l, other), other.Limit.Most(); n != most {
			t.Errorf("one sharer took %d of a raised limit, want %d", n, most)
		}
	})
}

func TestKeysAreApart(t *testing.T) {
	eachLimiter(t, func(t *testing.T, l ratelimit.Limiter) {
		for _, key := range []string{"a", "b", "a\x00b", ""} {
			if n := taken(t, l, ratelimit.Bucket{
				Key:   key,
				Limit: ratelimit.Limit{Rate: 1, Burst: 4},
			}); n != 4 {
				t.Errorf("%q: %d taken, want 4", key, n)
			}
		}
	})
}
