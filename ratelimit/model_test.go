package ratelimit_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// someBuckets returns what a call takes: of up to three buckets, one of which has those
// sharers. Rates and times are powers of two, so that no two ways to add them up differ.
func someBuckets(t *rapid.T, prefix string, sharers []string) []ratelimit.Bucket {
	all := []ratelimit.Bucket{
		{
			Key: prefix + "tenant", Limit: ratelimit.Limit{Rate: 2, Burst: 16},
			Sharer: rapid.SampledFrom(sharers).Draw(t, "sharer"),
		},
		{Key: prefix + "user", Limit: ratelimit.Limit{Rate: 1, Burst: 8}},
		{Key: prefix + "tool", Limit: ratelimit.Limit{Rate: 0.5, Burst: 4}},
	}
	var buckets []ratelimit.Bucket
	for i := range all {
		if all[i].N = rapid.IntRange(0, 3).Draw(t, all[i].Key); all[i].N > 0 {
			buckets = append(buckets, all[i])
		}
	}
	return buckets
}

// timeless is a test that does not tell rapid its deadline, which cannot be asked for in
// a bubble.
type timeless struct{ testing.TB }

// TestReplicasDecideAsOneMemory compares two replicas, which share a server, with one
// Memory, on the same calls at the same times. Nothing is taken ahead of buckets that
// small where there may be eight replicas. Those who share a bucket call at one replica,
// because each counts for itself what they owe.
func TestReplicasDecideAsOneMemory(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		round := 0
		rapid.Check(timeless{t}, func(r *rapid.T) {
			round++
			memory, replicas := ratelimit.NewMemory(0), []*ratelimit.Redis{w.replica(8), w.replica(8)}
			sharers := rapid.SampledFrom([][]string{{""}, {"alice", "bob", "carol"}}).Draw(r, "sharers")
			for range rapid.IntRange(1, 60).Draw(r, "calls") {
				at := 0
				if len(sharers) == 1 {
					at = rapid.IntRange(0, len(replicas)-1).Draw(r, "replica")
				}
				buckets := someBuckets(r, fmt.Sprint(round), sharers)
				want, got := exceeded(t, memory, buckets...), exceeded(t, replicas[at], buckets...)
				switch {
				case (got == nil) != (want == nil):
					r.Fatalf("%+v: Redis says %+v, Memory %+v", buckets, got, want)
				case got == nil:
				case got.RetryAfter > want.RetryAfter+
					time.Millisecond: // less, where another bucket was refused before
					r.Fatalf("%+v: Redis says %+v, which is longer than Memory's %+v", buckets, got, want)
				}
				time.Sleep(time.Duration(rapid.SampledFrom([]int{0, 0, 0, 0, 125, 250, 1000, 4000}).Draw(r,
					"pause")) * time.Millisecond)
			}
		})
	})
}

// TestPrefetchesStayWithinTheBucket compares replicas with prefetches with a bucket that
// is taken from at once: what they allow is there, at any time and pace.
func TestPrefetchesStayWithinTheBucket(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		round := 0
		rapid.Check(timeless{t}, func(r *rapid.T) {
			round++
			limit := ratelimit.Limit{
				Rate:  rapid.SampledFrom([]float64{0.5, 8, 64}).Draw(r, "rate"),
				Burst: rapid.IntRange(1, 200).Draw(r, "burst"),
			}
			var replicas []*ratelimit.Redis
			for i := range rapid.IntRange(1, 4).Draw(r, "replicas") {
				replicas = append(replicas, w.named(fmt.Sprint(i), rapid.IntRange(1, 4).Draw(r, "known")))
			}
			has, last := float64(limit.Burst), time.Now()
			for range rapid.IntRange(1, 80).Draw(r, "calls") {
				b := ratelimit.Bucket{
					Key: fmt.Sprint(round), Limit: limit,
					N: rapid.IntRange(1, 3).Draw(r, "n"),
				}
				for range rapid.IntRange(1, 20).Draw(r, "times") {
					has, last = min(has+time.Since(last).Seconds()*limit.Rate, float64(limit.Burst)),
						time.Now()
					if exceeded(t, replicas[rapid.IntRange(0, len(replicas)-1).Draw(r, "replica")],
						b) != nil {
						continue
					}
					if has -= float64(b.N); has < -1e-6 {
						r.Fatalf("%d of %+v were allowed, %g too many", b.N, limit, -has)
					}
				}
				time.Sleep(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 125, 1000, 20_000, 31_000}).Draw(r,
					"pause")) * time.Millisecond)
			}
		})
	})
}

// TestPrefetchesStayWithinEachBucket does that for calls that take of several buckets:
// each call takes of all or of none, so that a narrow bucket that refuses leaves a wide
// one as it was.
func TestPrefetchesStayWithinEachBucket(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		round := 0
		rapid.Check(timeless{t}, func(r *rapid.T) {
			round++
			var limits []ratelimit.Limit
			for range rapid.IntRange(2, 3).Draw(r, "buckets") {
				limits = append(limits, ratelimit.Limit{Rate: rapid.SampledFrom([]float64{0.5, 8, 64}).Draw(r,
					"rate"), Burst: rapid.IntRange(3, 200).Draw(r, "burst")})
			}
			var replicas []*ratelimit.Redis
			for i := range rapid.IntRange(1, 4).Draw(r, "replicas") {
				replicas = append(replicas, w.named(fmt.Sprint(i), rapid.IntRange(1, 4).Draw(r, "known")))
			}
			has, last := make([]float64, len(limits)), time.Now()
			for i := range limits {
				has[i] = float64(limits[i].Burst)
			}
			for range rapid.IntRange(1, 60).Draw(r, "calls") {
				var buckets []ratelimit.Bucket
				for i := range limits {
					if n := rapid.IntRange(0, 3).Draw(r, "n"); n > 0 {
						buckets = append(buckets, ratelimit.Bucket{
							Key:   fmt.Sprint(round, i),
							Limit: limits[i], N: n,
						})
					}
				}
				for range rapid.IntRange(1, 20).Draw(r, "times") {
					for i := range has {
						has[i] = min(has[i]+time.Since(last).Seconds()*limits[i].Rate,
							float64(limits[i].Burst))
					}
					last = time.Now()
					if exceeded(t, replicas[rapid.IntRange(0, len(replicas)-1).Draw(r, "replica")],
						buckets...) != nil {
						continue
					}
					for _, b := range buckets {
						i := slices.Index(limits, b.Limit)
						for b.Key != fmt.Sprint(round, i) {
							i++ // another bucket with the same limit
						}
						if has[i] -= float64(b.N); has[i] < -1e-6 {
							r.Fatalf("%d of %+v were allowed, %g too many", b.N, b.Limit, -has[i])
						}
					}
				}
				time.Sleep(time.Duration(rapid.SampledFrom([]int{0, 0, 1, 125, 1000, 20_000, 31_000}).Draw(r,
					"pause")) * time.Millisecond)
			}
		})
	})
}

// tokens are those of two buckets that regain none. A step takes of both, or is refused
// because the one it names has too few beside those that replicas have ahead. Each of
// three may have one, a twenty-fourth of the burst rounded down, however many calls it
// has under way: what those keep aside during their trips counts, and no more is brought
// for those that wait.
type tokens [2]int

type attempt struct {
	take    tokens
	refused *ratelimit.ExceededError
}

func bucketsOfTwo() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return tokens{40, 25} },
		Step: func(state, _, output any) (bool, any) {
			has, a := state.(tokens), output.(attempt)
			if a.refused != nil {
				return has[a.refused.Bucket] < a.take[a.refused.Bucket]+3, has
			}
			for i := range has {
				has[i] -= a.take[i]
			}
			return has[0] >= 0 && has[1] >= 0, has
		},
	}
}

// TestConcurrentTakesHaveAnOrder lets several replicas take from two buckets at the same
// time, on a real server, and looks for an order in which each answer is right.
func TestConcurrentTakesHaveAnOrder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for round := range 10 {
		var mu sync.Mutex // guards history
		var history []porcupine.Operation
		var group sync.WaitGroup
		began := time.Now()
		var replicas []*ratelimit.Redis
		for i := range 3 {
			replicas = append(replicas, ratelimit.NewRedis(ratelimit.RedisConfig{
				Store:   server.Store(t),
				Replica: fmt.Sprint(i), Replicas: 3,
			}))
		}
		for client := range 9 {
			if client%3 == 0 && round == 0 {
				continue // fewer at first
			}
			l := replicas[client%3]
			group.Go(func() {
				for i := range 12 {
					a := attempt{take: tokens{1 + (client+i)%3, 1 + i%2}}
					call := time.Since(began).Nanoseconds()
					a.refused = exceeded(t, l,
						ratelimit.Bucket{
							Key: fmt.Sprint("first", round), Group: "acme", N: a.take[0],
							Limit: ratelimit.Limit{Rate: 1e-9, Burst: 40},
						},
						ratelimit.Bucket{
							Key: fmt.Sprint("second", round), Group: "acme", N: a.take[1],
							Limit: ratelimit.Limit{Rate: 1e-9, Burst: 25},
						})
					mu.Lock()
					history = append(history, porcupine.Operation{
						ClientId: client, Call: call, Output: a,
						Return: time.Since(began).Nanoseconds(),
					})
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if got := porcupine.CheckOperationsTimeout(bucketsOfTwo(), history,
			10*time.Minute); got != porcupine.Ok {
			t.Fatalf("round %d: no order of %d takes makes every answer right (%s)", round, len(history), got)
		}
	}
}
