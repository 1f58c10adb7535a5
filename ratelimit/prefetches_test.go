package ratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// requests is the bucket of a tenant by default.
func requests(sharer string) ratelimit.Bucket {
	return ratelimit.Bucket{
		Key: "requests", Group: "acme", Sharer: sharer,
		Limit: ratelimit.Limit{Rate: 100, Burst: 200},
	}
}

// leasing returns the limiter of a replica, and the count of its trips.
func (w *world) leasing(t *testing.T, name string, replicas int) (*ratelimit.Redis, *ratelimit.Trips) {
	t.Helper()
	l := w.named(name, replicas)
	trips := ratelimit.Counted(l)
	return l, trips
}

// TestOnlyTheFirstRequestWaitsForATrip shows that requests at any pace cost a trip now
// and then, which none of them waits for but the first.
func TestOnlyTheFirstRequestWaitsForATrip(t *testing.T) {
	for _, every := range []time.Duration{
		time.Millisecond * 11, 100 * time.Millisecond, time.Second,
		12 * time.Second,
	} {
		t.Run(every.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				l, trips := w.leasing(t, "me", 3)
				ctx := context.WithValue(t.Context(), ratelimit.Waits{}, true)
				for i := range 400 {
					if err := l.Take(ctx, requests("alice")); err != nil {
						t.Fatalf("request %d: %v", i, err)
					}
					if n := trips.Waited.Load(); n != 1 {
						t.Fatalf("after request %d: %d trips were waited for, want 1", i, n)
					}
					synctest.Wait()
					time.Sleep(every)
				}
				t.Logf("%d trips", trips.All.Load())
				if n := trips.All.Load(); n > 400/4 && every < prefetchHalf {
					t.Errorf("%d trips for 400 requests, want at most %d", n, 400/4)
				}
			})
		})
	}
}

// TestABusyCallCostsFewTrips counts the trips of calls that take of tenant, user and
// tool, of one user and of many.
func TestABusyCallCostsFewTrips(t *testing.T) {
	const calls = 20_000
	for _, users := range []int{1, 1000} {
		t.Run(fmt.Sprint(users, " users"), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				l, trips := w.leasing(t, "me", 3)
				wide := ratelimit.Limit{Rate: 1000, Burst: 2000}
				for i := range calls {
					user := fmt.Sprint("user", i%users)
					if refusal := exceeded(t, l,
						ratelimit.Bucket{Key: "calls", Group: "acme", Limit: wide, Sharer: user},
						ratelimit.Bucket{Key: user, Group: "acme", Limit: wide},
						ratelimit.Bucket{
							Key: "tool", Group: "acme", Limit: wide,
							Sharer: user,
						}); refusal != nil {
						t.Fatalf("call %d: %+v", i, refusal)
					}
					synctest.Wait()
					time.Sleep(time.Second / 500)
				}
				each := float64(trips.All.Load()) / calls
				t.Logf("%.3f trips a call", each)
				if each > 0.1 && users == 1 || each > 0.5 {
					t.Errorf("%.3f trips a call", each)
				}
			})
		})
	}
}

// TestAheadCountsWhatIsNotUsed shows how many tokens a replica has taken ahead, and that
// they are lost after their time.
func TestAheadCountsWhatIsNotUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, _ := w.leasing(t, "me", 3)
		for taken, want := range []int{0, 8, 7, 6} { // an eighth of the burst, divided by the replicas
			if taken > 0 {
				if err := l.Take(t.Context(), requests("alice")); err != nil {
					t.Fatal(err)
				}
			}
			if got := l.Ahead(); got != want {
				t.Errorf("after %d requests: got %d tokens ahead, want %d", taken, got, want)
			}
		}
		time.Sleep(time.Minute)
		if got := l.Ahead(); got != 0 {
			t.Errorf("after a minute: got %d tokens ahead, want none", got)
		}
	})
}

const prefetchHalf = 3 * time.Second // four requests in the half of what a prefetch lives

// TestPrefetchesAllowNoMoreThanTheBucket lets three replicas take at all paces, and looks
// at every span of time: never is more allowed than Burst and what Rate gives in that
// time.
func TestPrefetchesAllowNoMoreThanTheBucket(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		random := rand.New(rand.NewPCG(3, 4))
		limit := ratelimit.Limit{Rate: 10, Burst: 100}
		var replicas []*ratelimit.Redis
		for i := range 3 {
			l, _ := w.leasing(t, fmt.Sprint(i), 3)
			replicas = append(replicas, l)
		}
		// of a bucket that is taken from without prefetches
		level, last, granted := float64(limit.Burst), time.Now(), 0
		for range 4000 {
			b := ratelimit.Bucket{Key: "a", Limit: limit, N: 1 + random.IntN(3)}
			refusal := exceeded(t, replicas[random.IntN(3)], b)
			level, last = min(level+time.Since(last).Seconds()*limit.Rate, float64(limit.Burst)), time.Now()
			if refusal == nil {
				granted += b.N
				if level -= float64(b.N); level < -1e-3 {
					t.Fatalf("%d were allowed in all, and now %g more than the limit allows", granted, -level)
				}
			}
			switch random.IntN(40) {
			case 0:
				time.Sleep(time.Duration(random.IntN(20_000)) * time.Millisecond)
			case 1, 2, 3, 4, 5, 6:
				synctest.Wait()
				time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
			}
		}
		if granted < 1000 {
			t.Errorf("only %d were allowed", granted)
		}
	})
}

// TestReplicasPrefetchNoMoreThanTheBucketHas is TestReplicasTakeNoMoreThanTheBucketHas
// for prefetches.
func TestReplicasPrefetchNoMoreThanTheBucketHas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limit := ratelimit.Limit{Rate: 400, Burst: 100}
	var replicas []*ratelimit.Redis
	for i := range 3 {
		replicas = append(replicas, ratelimit.NewRedis(ratelimit.RedisConfig{
			Store: server.Store(t), Replicas: 3,
			Replica: fmt.Sprint(i),
		}))
	}
	var got atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for _, l := range replicas {
		for worker := range 4 {
			group.Go(func() {
				for time.Since(began) < 2*time.Second {
					if exceeded(t, l, ratelimit.Bucket{
						Key: "tenant", Group: "acme", Limit: limit,
						Sharer: fmt.Sprint(worker),
					}) == nil {
						got.Add(1)
					}
				}
			})
		}
	}
	group.Wait()
	most := limit.Rate*time.Since(began).Seconds() + float64(limit.Burst)
	if n := float64(got.Load()); n > most || n < float64(limit.Burst)/2 {
		t.Errorf("%v taken, want at most %.0f and at least half of the burst", n, most)
	}
}

// TestOneSharerLeavesThePrefetchesOfTheQuiet is TestOneSharerLeavesTheTokensOfTheQuiet
// for prefetches at several replicas: one who is quiet at each of them is never refused,
// wherever the requests of the others arrive.
func TestOneSharerLeavesThePrefetchesOfTheQuiet(t *testing.T) {
	for _, test := range []struct{ replicas, loud int }{{1, 1}, {1, 7}, {3, 1}, {3, 5}} {
		t.Run(fmt.Sprintf("%d replicas, %d loud", test.replicas, test.loud), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				random := rand.New(rand.NewPCG(7, uint64(test.loud)))
				var replicas []*ratelimit.Redis
				for i := range test.replicas {
					l, _ := w.leasing(t, fmt.Sprint(i), test.replicas)
					replicas = append(replicas, l)
				}
				begun, next, got := time.Now(), time.Duration(0), 0
				for time.Since(begun) < 8*time.Second {
					for range random.IntN(10 * test.loud) {
						if exceeded(t, replicas[random.IntN(test.replicas)],
							requests(fmt.Sprint("loud", random.IntN(test.loud)))) == nil {
							got++
						}
					}
					if at := time.Since(begun); at >= next {
						next = at + time.Second
						if refusal := exceeded(t, replicas[int(at.Seconds())%test.replicas],
							requests("quiet")); refusal != nil {
							t.Fatalf("after %s the quiet one was refused: %+v", at, refusal)
						}
						got++
					}
					synctest.Wait()
					time.Sleep(time.Duration(random.IntN(9_000)) * time.Microsecond)
				}
				most := 100*time.Since(begun).Seconds() + 200
				if float64(got) > most || float64(got) < 0.9*(most-200) {
					t.Errorf(
						"%d taken by all together, want at most %.0f, and nearly all that the rate gives",
						got, most)
				}
			})
		})
	}
}

// TestOneSharerAlonePrefetchesHalf shows how much one sharer takes at once, alone, at one
// replica and at all.
func TestOneSharerAlonePrefetchesHalf(t *testing.T) {
	for _, spread := range []int{1, 3} {
		t.Run(fmt.Sprint("over ", spread), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				var replicas []*ratelimit.Redis
				for i := range 3 {
					l, _ := w.leasing(t, fmt.Sprint(i), 3)
					replicas = append(replicas, l)
				}
				n := 0
				for i, refused := 0, 0; refused < spread; i++ {
					if exceeded(t, replicas[i%spread], requests("alice")) == nil {
						n, refused = n+1, 0
					} else {
						refused++
					}
					synctest.Wait()
				}
				t.Logf("%d of 200", n)
				if n < 90 || n > 150 {
					t.Errorf("%d taken at once of 200, want about half, and none of the reserve of 50", n)
				}
				if refusal := exceeded(t, replicas[2], requests("bob")); refusal != nil {
					t.Errorf("another sharer: %+v", refusal)
				}
			})
		})
	}
}

// TestAStrangePrefetchAllowsNothingMore is TestAStrangeValueAllowsNothingMore for
// prefetches.
func TestAStrangePrefetchAllowsNothingMore(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, w *world, key string){
		"a text":    func(t *testing.T, w *world, key string) { w.do(t, "SET", key, "junk") },
		"no bucket": func(t *testing.T, w *world, key string) { w.do(t, "HDEL", key, "bucket") },
		"a strange bucket": func(t *testing.T, w *world,
			key string,
		) {
			w.do(t, "HSET", key, "bucket", "nan 1")
		},
		"an endless bucket": func(t *testing.T, w *world,
			key string,
		) {
			w.do(t, "HSET", key, "bucket", "1e300 0")
		},
		"a bucket to come": func(t *testing.T, w *world,
			key string,
		) {
			w.do(t, "HSET", key, "bucket", "3 9999999999999999")
		},
		"a negative prefetch": func(t *testing.T, w *world,
			key string,
		) {
			w.do(t, "HSET", key, "x", "-100 9999999999999999")
		},
		"an endless prefetch": func(t *testing.T, w *world,
			key string,
		) {
			w.do(t, "HSET", key, "x", "1e300 9999999999999999")
		},
		"a long prefetch": func(t *testing.T, w *world, key string) {
			w.do(t, "HSET", key, "x", fmt.Sprint("100 ", time.Now().Add(8*time.Second).UnixMicro()))
		},
		"a strange prefetch": func(t *testing.T, w *world, key string) { w.do(t, "HSET", key, "me", "much 7") },
		"nothing":            func(t *testing.T, w *world, key string) { w.do(t, "DEL", key) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				l := w.named("me", 1)
				b := ratelimit.Bucket{Key: "a", Limit: ratelimit.Limit{Rate: 2, Burst: 20}}
				if n := taken(t, l, b); n != 20 {
					t.Fatalf("%d taken of 20", n)
				}
				time.Sleep(time.Second)
				spoil(t, w, ratelimit.KeyOf(b))
				if n := taken(t, l, b); n > 20 {
					t.Errorf("%d taken at once, want at most 20", n)
				}
				time.Sleep(10 * time.Second)
				_ = taken(t, l, b) // finds that a prefetch is over
				time.Sleep(10 * time.Second)
				if n := taken(t, l, b); n != 20 {
					t.Errorf("%d taken after the time of a burst, want 20", n)
				}
			})
		})
	}
}

// TestWithoutTheServerAPrefetchIsUsedUp shows that the rest of a prefetch and then the
// part of the replica are allowed.
func TestWithoutTheServerAPrefetchIsUsedUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := server.Store(t)
	var local atomic.Int64
	l := ratelimit.NewRedis(ratelimit.RedisConfig{
		Store: store, Replica: "me", Replicas: 4,
		Local: func() { local.Add(1) },
	})
	b := ratelimit.Bucket{Key: "a", Limit: ratelimit.Limit{Rate: 1e-6, Burst: 320}}
	if err := l.Take(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	for store.Up() == nil {
		<-time.After(time.Millisecond)
	}
	if n := taken(t, l, b); n != 10+80 || local.Load() != 81 {
		t.Errorf("%d taken, %d decided by the part; want 10 of the prefetch and 80", n, local.Load())
	}
}

// TestManyWaitForOneTrip shows that those who come while the first tokens are fetched get
// theirs with few trips.
func TestManyWaitForOneTrip(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.named("me", 3)
		trips := ratelimit.Counted(l)
		ratelimit.Before(l, func([]string) { time.Sleep(time.Millisecond) }) // until all wait
		var group sync.WaitGroup
		for i := range 64 {
			group.Go(func() {
				if err := l.Take(t.Context(), requests(fmt.Sprint("user", i))); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := trips.All.Load(); n > 20 {
			t.Errorf("%d trips for 64 requests at once, want few", n)
		}
		time.Sleep(time.Second) // until what was begun beside has ended
	})
}

// TestCallsThatAskEachTimeDoSoAtOnce: of a bucket of which nothing is taken ahead, calls
// that come at one moment asked one after the other, so that the last of a user's twenty
// waited for twenty round trips.
func TestCallsThatAskEachTimeDoSoAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.named("me", 3)
		ratelimit.Before(l, func([]string) { time.Sleep(100 * time.Millisecond) })
		user := ratelimit.Bucket{Key: "user", Limit: ratelimit.Limit{Rate: 1e-9, Burst: 20}}
		began, refused := time.Now(), atomic.Int64{}
		var group sync.WaitGroup
		for range 25 {
			group.Go(func() {
				if exceeded(t, l, user) != nil {
					refused.Add(1)
				}
			})
		}
		group.Wait()
		if took := time.Since(began); took > 100*time.Millisecond || refused.Load() != 5 {
			t.Errorf("25 calls took %s, and %d were refused; want one round trip, and 5", took,
				refused.Load())
		}
	})
}

// TestOneWhoComesAtOnceTakesNoMoreThanItsShare: calls of one sharer that come at one
// moment take no more of a bucket than one after the other.
func TestOneWhoComesAtOnceTakesNoMoreThanItsShare(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.named("me", 3)
		ratelimit.Before(l, func([]string) { time.Sleep(time.Millisecond) })
		shared := ratelimit.Bucket{
			Key: "tool", Sharer: "alice", Limit: ratelimit.Limit{Rate: 1e-9, Burst: 20},
		}
		var group sync.WaitGroup
		got := atomic.Int64{}
		for range 25 {
			group.Go(func() {
				if exceeded(t, l, shared) == nil {
					got.Add(1)
				}
			})
		}
		group.Wait()
		if n := got.Load(); n != 10 {
			t.Errorf("%d taken of 20, want half", n)
		}
	})
}

// TestRefusedCallsPrefetchNothing: calls that a narrow bucket refuses leave nothing of
// the wide one with their replica. A trip brought a token for each call that waited for
// it, the replica kept them, up to three quarters of the bucket, and others were refused.
func TestRefusedCallsPrefetchNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.named("me", 3)
		ratelimit.Before(l, func([]string) { time.Sleep(time.Millisecond) }) // until all wait
		wide := ratelimit.Bucket{Key: "wide", Limit: ratelimit.Limit{Rate: 1e-9, Burst: 20}}
		narrow := ratelimit.Bucket{Key: "narrow", Limit: ratelimit.Limit{Rate: 1e-9, Burst: 2}}
		var group sync.WaitGroup
		for range 64 {
			group.Go(func() { _ = exceeded(t, l, wide, narrow) })
		}
		group.Wait()
		if n := l.Ahead(); n != 0 {
			t.Errorf("%d tokens are ahead, want none of a burst below 8 × replicas", n)
		}
		if n := taken(t, w.named("other", 3), wide); n != 18 {
			t.Errorf("another replica took %d of 20, of which 2 were taken, want 18", n)
		}
	})
}

// TestTokensKeptAsideAreCounted: while calls keep a token aside for their trip to a
// narrow bucket, their replica has it still. The wide bucket was told that it had none,
// gave it others, and filled up although those were there, once the calls were refused.
func TestTokensKeptAsideAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, other := w.named("me", 3), w.named("other", 3)
		wide := ratelimit.Bucket{Key: "wide", Limit: ratelimit.Limit{Rate: 10, Burst: 40}}
		gate := make(chan struct{})
		ratelimit.Before(l, func(keys []string) {
			if !slices.Contains(keys, ratelimit.KeyOf(wide)) {
				<-gate
			}
		})
		var group sync.WaitGroup
		for i := range 8 {
			narrow := ratelimit.Bucket{
				Key:   fmt.Sprint("narrow ", i),
				Limit: ratelimit.Limit{Rate: 1e-9, Burst: 1},
			}
			for _, take := range []struct {
				of      ratelimit.Limiter
				buckets []ratelimit.Bucket
			}{{other, []ratelimit.Bucket{narrow}}, {l, []ratelimit.Bucket{wide}}} {
				if refusal := exceeded(t, take.of, take.buckets...); refusal != nil {
					t.Fatal(refusal)
				}
			}
			group.Go(func() {
				if exceeded(t, l, wide, narrow) == nil {
					t.Error("a call took of a narrow bucket that is empty")
				}
			})
			synctest.Wait()
		}
		close(gate)
		group.Wait()
		if n := l.Ahead(); n > 1 {
			t.Errorf("%d tokens are ahead, want at most 1, an eighth of the burst divided by the replicas", n)
		}
		time.Sleep(10 * time.Second) // the bucket is full again
		if n := taken(t, l, wide) + taken(t, other, wide); n != 40 {
			t.Errorf("%d taken at once, want 40", n)
		}
	})
}

// TestAPrefetchOfALaterVersionStays: a replica leaves prefetches alone to which a later
// version has added something. It removed them, and so prefetched more than the bucket
// had while the new version was rolled out.
func TestAPrefetchOfALaterVersionStays(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.named("me", 2)
		b := ratelimit.Bucket{Key: "a", Limit: ratelimit.Limit{Rate: 0.001, Burst: 20}}
		now := time.Now()
		w.do(t, "HSET", ratelimit.KeyOf(b), "bucket", fmt.Sprint("5 ", now.UnixMicro()), "later",
			fmt.Sprint("15 ", now.Add(5*time.Second).UnixMicro(), " and more"))
		if n := taken(t, l, b); n != 5 {
			t.Errorf("%d taken of 20, of which another has 15", n)
		}
		if left := w.do(t, "HGET", ratelimit.KeyOf(b), "later"); left.Nil() {
			t.Error("the prefetch of the other is gone")
		}
	})
}
