package ratelimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
)

// giveBack has a replica give back what it has left, as it does when it stops.
func giveBack(t *testing.T, l *ratelimit.Redis) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := l.Run(ctx); err != nil {
		t.Error(err)
	}
}

// TestTokensOfAReplicaThatStopsAreGivenBack: what it has taken ahead and not used, others
// can take. It was missing to them until the rate had brought as much again.
func TestTokensOfAReplicaThatStopsAreGivenBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	replica := func(name string) *ratelimit.Redis {
		return ratelimit.NewRedis(ratelimit.RedisConfig{Store: server.Store(t), Replicas: 2, Replica: name})
	}
	var buckets []ratelimit.Bucket
	for i := range 20 { // of more tenants than are given back at the same time
		buckets = append(buckets, ratelimit.Bucket{
			Key: "requests", Group: fmt.Sprint("tenant", i),
			Limit: ratelimit.Limit{Rate: 1e-6, Burst: 320},
		})
		buckets[i].Key += buckets[i].Group
	}
	stops, stays := replica("stops"), replica("stays")
	for _, b := range buckets {
		for range 5 {
			if err := stops.Take(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	giveBack(t, stops)
	for _, b := range buckets {
		if n := taken(t, stays, b); n != 315 {
			t.Errorf("%s: the other takes %d, want the 315 of 320 that nobody has used", b.Group, n)
		}
	}
}

// TestNoMoreIsGivenBackThanTaken has a replica give back 16 tokens of 320, of which it
// has used one more, when the server knows of fewer.
func TestNoMoreIsGivenBackThanTaken(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(t *testing.T, w *world, key string)
		left  int
	}{
		"it knows of all":        {func(*testing.T, *world, string) {}, 319},
		"it has lost the bucket": {func(t *testing.T, w *world, key string) { w.do(t, "DEL", key) }, 320},
		"it has lost the prefetch": {
			func(t *testing.T, w *world, key string) { w.do(t, "HDEL", key, "me") },
			303,
		},
		"it knows of three": {func(t *testing.T, w *world, key string) {
			w.do(t, "HSET", key, "me", fmt.Sprint("3 ", time.Now().Add(30*time.Second).UnixMicro()))
		}, 306},
		"the prefetch is over": {func(t *testing.T, w *world, key string) {
			w.do(t, "HSET", key, "me", fmt.Sprint("16 ", time.Now().Add(-time.Second).UnixMicro()))
		}, 303},
		"it has something else": {
			func(t *testing.T, w *world, key string) { w.do(t, "SET", key, "junk") },
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				l := w.named("me", 2)
				b := ratelimit.Bucket{Key: "a", Limit: ratelimit.Limit{Rate: 1e-6, Burst: 320}}
				if err := l.Take(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				test.spoil(t, w, ratelimit.KeyOf(b))
				giveBack(t, l)
				giveBack(t, l) // has nothing left
				if n := taken(t, w.named("other", 2), b); n != test.left {
					t.Errorf("another takes %d, want %d", n, test.left)
				}
			})
		})
	}
}

// TestTokensKeptAsideAreNotGivenBack: a replica that gives back what it has left still
// knows what a call keeps aside at that time. It forgot that, and the bucket had room for
// as much.
func TestTokensKeptAsideAreNotGivenBack(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		l, other := w.named("me", 1), w.named("other", 1)
		wide := ratelimit.Bucket{Key: "wide", Limit: ratelimit.Limit{Rate: 10, Burst: 160}}
		narrow := ratelimit.Bucket{Key: "narrow", Limit: ratelimit.Limit{Rate: 1e-9, Burst: 1}}
		gate := make(chan struct{})
		ratelimit.Before(l, func(keys []string) {
			if !slices.Contains(keys, ratelimit.KeyOf(wide)) {
				<-gate
			}
		})
		if exceeded(t, other, narrow) != nil || exceeded(t, l, wide) != nil {
			t.Fatal("full buckets refuse")
		}
		var group sync.WaitGroup
		group.Go(func() {
			of := wide
			of.N = 3
			if exceeded(t, l, of, narrow) == nil {
				t.Error("a call took of a narrow bucket that is empty")
			}
		})
		synctest.Wait()
		giveBack(t, l)
		close(gate)
		group.Wait()
		if n := l.Ahead(); n != 3 {
			t.Errorf("%d tokens are ahead, want the 3 that were kept aside", n)
		}
		time.Sleep(10 * time.Second) // the bucket is full again
		if n := taken(t, l, wide) + taken(t, other, wide); n != 160 {
			t.Errorf("%d taken at once, want 160", n)
		}
	})
}

// TestTokensThatNobodyTakesBackAreNoFault stops a replica when the server is gone: its
// tokens are lost, and nobody has to act.
func TestTokensThatNobodyTakesBackAreNoFault(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := server.Store(t)
	var lines strings.Builder
	log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l := ratelimit.NewRedis(ratelimit.RedisConfig{Store: store, Logger: log, Replica: "me"})
	b := ratelimit.Bucket{Key: "a", Limit: ratelimit.Limit{Rate: 1e-6, Burst: 320}}
	if err := l.Take(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	redistest.WaitDown(t, store)
	giveBack(t, l)
	if got := lines.String(); strings.Count(got, "level=") != 1 ||
		!strings.Contains(got, `level=DEBUG msg="tokens that were taken ahead are not given back"`) {
		t.Errorf("got the lines %q, want one for debugging", got)
	}
}
