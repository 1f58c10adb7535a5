package ratelimit_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// do runs one command on the server.
func (w *world) do(t testing.TB, name, key string, args ...string) redis.Reply {
	t.Helper()
	var reply redis.Reply
	var err error
	w.away(func() {
		reply, err = w.admin.Do(context.Background(), redis.Command{Name: name, Key: key, Args: args})
	})
	if err != nil {
		t.Fatalf("%s %s: %v", name, key, err)
	}
	return reply
}

// inBubble runs test with a server, in a bubble.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) { test(t, w) })
}

// TestARefusalIsAskedForOnceInItsTime shows that what is refused for some time is asked
// for once in that time, and that a changed limit or another sharer is asked for at once.
func TestARefusalIsAskedForOnceInItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.replica(1)
		trips := ratelimit.Counted(l)
		b := ratelimit.Bucket{Key: "a", Sharer: "alice", Limit: ratelimit.Limit{Rate: 0.5, Burst: 4}}
		if n := taken(t, l, b); n != 2 || trips.All.Load() != 2 {
			t.Fatalf("%d taken in %d trips, want 2 in 2", n, trips.All.Load())
		}
		trips.All.Store(0)
		for range 1000 {
			if refusal := exceeded(t, l,
				ratelimit.Bucket{Key: "other", Limit: ratelimit.Limit{Rate: 1, Burst: 1}},
				b); refusal == nil || refusal.Bucket != 1 || !refusal.Share {
				t.Fatalf("got %+v, want a refusal of bucket 1, for the share", refusal)
			}
		}
		if trips.All.Load() != 0 {
			t.Errorf("1000 refused calls took %d trips, want none", trips.All.Load())
		}
		refusal := exceeded(t, l, b)
		time.Sleep(refusal.RetryAfter)
		if refusal := exceeded(t, l, b); refusal != nil || trips.All.Load() != 1 {
			t.Errorf("after the time told: %v, in %d trips; want it taken in one", refusal, trips.All.Load())
		}
		_ = exceeded(t, l, b)
		trips.All.Store(0)
		b.Limit.Burst = 40
		if _ = exceeded(t, l, b); trips.All.Load() != 1 {
			t.Errorf("another limit: %d trips, want 1", trips.All.Load())
		}
		b.Sharer = "bob"
		if _ = exceeded(t, l, b); trips.All.Load() != 2 {
			t.Errorf("another sharer: %d trips, want 1 more", trips.All.Load())
		}
	})
}

// TestARefusalNamesItsBucketHoweverLongTripsTake has every other trip come to the server
// late, and all answers: what the bucket regains meanwhile is not counted twice.
func TestARefusalNamesItsBucketHoweverLongTripsTake(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l := w.replica(2)
		late := false
		ratelimit.Before(l, func([]string) {
			if late = !late; late {
				time.Sleep(20 * time.Millisecond)
			}
		})
		ratelimit.After(l, func() { time.Sleep(50 * time.Millisecond) })
		tenant := ratelimit.Bucket{Key: "tenant", Limit: ratelimit.Limit{Rate: 1000, Burst: 1000}}
		user := ratelimit.Bucket{Key: "user", Limit: ratelimit.Limit{Rate: 10, Burst: 20}}
		refused := 0
		for range 500 {
			if refusal := exceeded(t, l, tenant, user); refusal != nil {
				refused++
				if refusal.Bucket != 1 {
					t.Fatalf("got %+v after %d refusals, want a refusal of bucket 1", refusal, refused)
				}
			}
			time.Sleep(time.Millisecond)
		}
		if refused < 100 {
			t.Errorf("%d of 500 calls were refused", refused)
		}
	})
}

// TestALongRefusalIsAskedForAgain shows that a replica asks again in time, although it
// knows a refusal for long: the bucket may have been filled by somebody else.
func TestALongRefusalIsAskedForAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, b := w.replica(1), ratelimit.Bucket{Key: "a", Limit: ratelimit.Limit{Rate: 0.0001, Burst: 1}}
		if n := taken(t, l, b); n != 1 {
			t.Fatal(n)
		}
		w.do(t, "DEL", ratelimit.KeyOf(b))
		time.Sleep(11 * time.Second)
		if refusal := exceeded(t, l, b); refusal != nil {
			t.Errorf("got %v 11 s after the bucket was filled", refusal)
		}
	})
}

// TestReplicasTakeNoMoreThanTheBucketHas lets several replicas take as often as they can,
// on the clock of the server.
func TestReplicasTakeNoMoreThanTheBucketHas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limit := ratelimit.Limit{Rate: 200, Burst: 50}
	var replicas []*ratelimit.Redis
	for range 3 {
		replicas = append(replicas,
			ratelimit.NewRedis(ratelimit.RedisConfig{Store: server.Store(t), Replicas: 3}))
	}
	began := time.Now()
	var got atomic.Int64
	var group sync.WaitGroup
	for _, l := range replicas {
		for worker := range 4 {
			group.Go(func() {
				for i := 0; time.Since(began) < 2*time.Second; i++ {
					switch refusal := exceeded(t, l, ratelimit.Bucket{
						Key: "tenant", Group: "acme",
						Limit: limit, Sharer: fmt.Sprint(worker),
					}); {
					case refusal == nil:
						got.Add(1)
					case refusal.RetryAfter > time.Minute:
						t.Errorf("refused for %s", refusal.RetryAfter)
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

// TestAStrangeValueAllowsNothingMore puts what no limiter writes under the keys of one.
// Nothing is allowed that the limit forbids, and nothing is refused for longer than an
// empty bucket would be.
func TestAStrangeValueAllowsNothingMore(t *testing.T) {
	now := "9999999999999999" // in the year 2286
	for _, strange := range []string{
		"", "junk", "nan 1", "inf 1", "-inf 1", "1e999 1", "5 -1", "-7 0",
		"1e308", "5 5 5", "0x10 1", "5 " + now, "1e300 " + now, strings.Repeat("9", 5000) + " 0",
	} {
		t.Run(fmt.Sprintf("%.20q", strange), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				l, b := w.replica(1), ratelimit.Bucket{
					Key: "a", Sharer: "alice",
					Limit: ratelimit.Limit{Rate: 1, Burst: 8},
				}
				_ = exceeded(t, l, b)
				w.do(t, "HSET", ratelimit.KeyOf(b), "bucket", strange)
				heals(t, l, b)
			})
		})
	}
	for _, name := range []string{"SET", "LPUSH"} {
		t.Run("by "+name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				l, b := w.replica(1), ratelimit.Bucket{
					Key: "a", Sharer: "alice",
					Limit: ratelimit.Limit{Rate: 1, Burst: 8},
				}
				w.do(t, name, ratelimit.KeyOf(b), "5 5")
				heals(t, l, b)
			})
		})
	}
}

// heals checks that a limiter allows no more than the burst of b at once, and all of its
// rate after the time of a burst.
func heals(t *testing.T, l ratelimit.Limiter, b ratelimit.Bucket) {
	t.Helper()
	most := b.Limit.Burst
	if b.Sharer != "" {
		most = b.Limit.Most()
	}
	if n := taken(t, l, b); n > most {
		t.Errorf("%d taken at once, want at most %d", n, most)
	}
	time.Sleep(time.Duration(float64(b.Limit.Burst) / b.Limit.Rate * float64(time.Second)))
	if n := taken(t, l, b); n != most {
		t.Errorf("%d taken after the time of a burst, want %d", n, most)
	}
}

// TestAClockThatIsSetBackFreezesNoLimit sets the clock of the server, as a failover may.
func TestAClockThatIsSetBackFreezesNoLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var offset time.Duration
		clock := func() time.Time { return time.Now().Add(offset) }
		l := ratelimit.NewRedisAt(ratelimit.RedisConfig{Store: w.store}, clock, w.away)
		// of which none is taken ahead
		b := ratelimit.Bucket{Key: "a", Limit: ratelimit.Limit{Rate: 1, Burst: 7}}
		for _, jump := range []time.Duration{
			-time.Hour, time.Hour, -10 * 24 * time.Hour,
			10 * 24 * time.Hour,
		} {
			heals(t, l, b)
			offset += jump
			// knows no refusals
			l = ratelimit.NewRedisAt(ratelimit.RedisConfig{Store: w.store}, clock, w.away)
			if n := taken(t, l, b); jump < 0 && n > 0 || n > b.Limit.Burst {
				t.Errorf("%d taken after a jump of %s, want none more than a burst, and none after one back",
					n, jump)
			}
		}
		heals(t, l, b)
	})
}

// TestKeysNameNobodyAndEnd shows that what is kept has a time to live, is together on one
// node of a cluster, and does not tell whom it is about.
func TestKeysNameNobodyAndEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shared := ratelimit.NewRedis(ratelimit.RedisConfig{Store: w.store})
	b := ratelimit.Bucket{
		Key: "secret-name", Group: "acme", Sharer: "secret-user",
		Limit: ratelimit.Limit{Rate: 1, Burst: 8},
	}
	if err := shared.Take(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	found, err := w.do(t, "KEYS", "db2:{acme}:*").List()
	if err != nil || len(found) != 1 {
		t.Fatalf("%d keys, %v; want 1", len(found), err)
	}
	for _, reply := range found {
		key, _ := reply.Text()
		ttl, err := w.do(t, "PTTL", key).Int()
		if err != nil || ttl < 1 || ttl > 130_000 || strings.Contains(key, "secret") {
			t.Errorf("%s lives %d ms, %v", key, ttl, err)
		}
	}
}

// TestWithoutTheServerEachReplicaAllowsItsPart stops the server, and starts it again.
func TestWithoutTheServerEachReplicaAllowsItsPart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := server.Store(t)
	var local atomic.Int64
	l := ratelimit.NewRedis(ratelimit.RedisConfig{Store: store, Replicas: 3, Local: func() { local.Add(1) }})
	b := ratelimit.Bucket{Key: "a", Group: "acme", Limit: ratelimit.Limit{Rate: 1e-6, Burst: 20}}
	if n := taken(t, l, b); n != 20 || local.Load() != 0 {
		t.Fatalf("%d taken, %d by the part of this replica; want 20 and 0", n, local.Load())
	}
	server.Stop()
	for store.Up() == nil { // the store looks every second
		<-time.After(time.Millisecond)
	}
	b.Key = "another"
	if n := taken(t, l, b); n != 6 || local.Load() != 7 {
		t.Errorf("%d taken, %d decided by the part of this replica; want 6 and 7", n, local.Load())
	}
	b.N = 10
	if refusal := exceeded(t, l, b); refusal == nil || refusal.RetryAfter == 0 {
		t.Errorf("more than the part: got %+v, want a time to come back", refusal)
	}
	large := ratelimit.Bucket{
		Key: "large", Group: "acme", Sharer: "alice", N: 100, Limit: ratelimit.Limit{Rate: 100, Burst: 200},
	}
	if refusal := exceeded(t, l, large); refusal != nil {
		t.Errorf("what takes all that a sharer may take of the whole: got %+v, want what it may of the part",
			refusal)
	}
	one := ratelimit.Bucket{Key: "one", Group: "acme", Limit: ratelimit.Limit{Rate: 1e-6, Burst: 1}}
	if n := taken(t, l, one); n != 1 {
		t.Errorf("%d taken of a burst of 1, want 1: a part below one token is one", n)
	}
	server.Begin(t)
	b.N = 0
	tries := 0
	redistest.Wait(t, func() error { // connections may be those of before
		tries++
		b.Key = fmt.Sprint("is it back", tries)
		if n := taken(t, l, b); n != 20 {
			return fmt.Errorf("%d taken when the server was back, want 20", n)
		}
		return nil
	})
}

// TestAServerThatRefusesLeavesALimit shows that a server that takes no writes is as good
// as none.
func TestAServerThatRefusesLeavesALimit(t *testing.T) {
	for name, args := range map[string][]string{
		"full":      {"--maxmemory", "1", "--maxmemory-policy", "noeviction"},
		"read-only": {"--min-replicas-to-write", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			store := server.Store(t)
			for i := 0; i < len(args); i += 2 {
				server.Exec(t, "CONFIG", "SET", args[i][2:], args[i+1])
			}
			var local atomic.Int64
			l := ratelimit.NewRedis(ratelimit.RedisConfig{
				Store: store, Replicas: 2,
				Local: func() { local.Add(1) },
			})
			b := ratelimit.Bucket{Key: "a", Limit: ratelimit.Limit{Rate: 1e-6, Burst: 10}}
			if n := taken(t, l, b); n != 5 || local.Load() != 6 {
				t.Errorf("%d taken, %d of them by the part of this replica; want 5 and 6", n, local.Load())
			}
		})
	}
}

// TestACallThatEndedIsNotCounted shows that who is gone takes nothing of the part of this
// replica.
func TestACallThatEndedIsNotCounted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(context.DeadlineExceeded)
	l := ratelimit.NewRedis(ratelimit.RedisConfig{
		Store: redis.New(redis.Config{}),
		Local: func() { t.Error("counted") },
	})
	b := ratelimit.Bucket{Key: "a", Limit: ratelimit.Limit{Rate: 1, Burst: 10}}
	if err := l.Take(ctx, b); err != context.DeadlineExceeded { //nolint:errorlint // exactly that
		t.Errorf("got %v, want why the call ended", err)
	}
}
