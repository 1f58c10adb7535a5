package eventlog_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/replica/replicatest"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// fleeting returns of each event of a stream of session s whether it is only here.
func fleeting(t *testing.T, l eventlog.Log, stream string) (is []bool) {
	t.Helper()
	events, _, err := l.Read(t.Context(), of("s"), stream, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		is = append(is, e.LocalOnly)
	}
	return is
}

// goesOn shows that streams of Begin go on without the server, and all else fails in a
// way that tells why.
func goesOn(t *testing.T, a, b *resident, id string) {
	t.Helper()
	var f follower
	if err := a.Follow(t.Context(), of("s"), &f); err != nil {
		t.Fatal(err)
	}
	add(t, a, "s", "p1", "2", false)
	if f.n.Load() == 0 {
		t.Error("a reader here was not woken")
	}
	want(t, a, "s", "p1", id, "2", true)
	if is := fleeting(t, a, "p1"); len(is) != 2 || !is[1] {
		t.Errorf("fleeting: got %v, want the second", is)
	}
	begin(t, a, "s", "p2", false)
	add(t, a, "s", "p2", "x", false)
	if is := fleeting(t, a, "p2"); len(is) != 1 || !is[0] {
		t.Errorf("fleeting in a stream that began without redis: got %v, want it", is)
	}
	_, err1 := a.Append(t.Context(), of("s"), "q1", nil, true)
	_, _, err2 := b.Read(t.Context(), of("s"), "p1", id)
	for i, err := range []error{err1, err2} {
		if !errors.Is(err, redis.ErrDown) || errors.Is(err, eventlog.ErrUnknown) {
			t.Errorf("step %d: got %v, want ErrDown", i+1, err)
		}
	}
	if _, err := a.Find(t.Context(), of("s"), id); !errors.Is(err, eventlog.ErrUnknown) {
		t.Errorf("resume here: got %v, want ErrUnknown: the client may have the events that have no id", err)
	}
}

// isLost shows that nobody at another replica waits for what will not come.
func isLost(t *testing.T, a, b *resident, id string) {
	t.Helper()
	eventually(t, "the stream cannot be resumed", func() bool {
		_, err := b.Find(t.Context(), of("s"), id)
		return errors.Is(err, eventlog.ErrUnknown)
	})
	add(t, a, "s", "p1", "3", true)
	want(t, a, "s", "p1", "", "1 2 3", false)
	want(t, b, "s", "p1", id, unknown, false)
	want(t, b, "s", "p1", eventlog.FirstID("p1"), unknown, false)
	n := 0
	// connections of before may still fail
	eventually(t, "a stream that began later can be resumed", func() bool {
		n++
		stream := fmt.Sprint("later", n)
		if lasting, err := a.Begin(t.Context(), of("s"), stream); !lasting || err != nil {
			return false
		}
		_, err := b.Find(t.Context(), of("s"), add(t, a, "s", stream, "x", false))
		return err == nil
	})
}

func TestRedisIsDown(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"and forgets": nil, "and remembers": {
		"--appendonly", "yes",
		"--appendfsync", "always",
	}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &house{server: redistest.Start(t, args...), ring: seal.RandomRing()}
			a, b := h.join(t), h.join(t)
			begin(t, a, "s", "p1", true)
			id := add(t, a, "s", "p1", "1", false)
			calm := make(map[string]string)
			for _, stream := range []string{"calm1", "calm2", "calm3", "calm4", "calm5"} {
				begin(t, a, "s", stream, true)
				calm[stream] = add(t, a, "s", stream, "1", false)
			}
			h.server.Stop()
			goesOn(t, a, b, id)
			h.server.Begin(t)
			for _, r := range []*resident{a, b} {
				redistest.WaitUp(t, r.store)
				eventually(t, "no connection is of before", func() bool {
					_, err := r.store.Do(t.Context(), redis.Command{Name: "GET", Key: "db2:x"})
					return err == nil
				})
				redistest.WaitUp(t, r.store)
				r.member.Return()
			}
			isLost(t, a, b, id)
			if args != nil { // a stream to which nothing was appended meanwhile has lost nothing
				goesOnElsewhere(t, a, b, calm)
				return
			}
			for stream, id := range calm {
				eventually(t, "the stream is known to be lost", func() bool {
					_, err := a.Find(t.Context(), of("s"), id)
					return errors.Is(err, eventlog.ErrUnknown)
				})
				add(t, a, "s", stream, "2", false)
				eventually(t, "the stream is lost elsewhere", func() bool {
					_, err := b.Find(t.Context(), of("s"), id)
					return errors.Is(err, eventlog.ErrUnknown)
				})
			}
		})
	}
}

// goesOnElsewhere shows that one of several streams goes on at another replica. Others
// may be lost because a connection of before fails late.
func goesOnElsewhere(t *testing.T, a, b *resident, streams map[string]string) {
	t.Helper()
	for stream, id := range streams {
		add(t, a, "s", stream, "2", false)
		if is := fleeting(t, a, stream); is[len(is)-1] {
			continue
		}
		eventually(t, "the stream goes on",
			func() bool { text, more := read(t, b, "s", stream, id); return text == "2" && more })
		return
	}
	t.Error("no stream goes on")
}

func TestRedisIsFull(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	begin(t, a, "s", "p1", true)
	id := add(t, a, "s", "p1", "1", false)
	h.server.Exec(t, "CONFIG", "SET", "maxmemory", "1")
	if _, err := a.Append(t.Context(), of("s"), "q1", nil, true); !errors.Is(err, redis.ErrDown) {
		t.Errorf("got %v, want ErrDown", err)
	}
	add(t, a, "s", "p1", "2", false)
	if is := fleeting(t, a, "p1"); len(is) != 2 || !is[1] {
		t.Errorf("fleeting: got %v, want the second", is)
	}
	h.server.Exec(t, "CONFIG", "SET", "maxmemory", "0")
	redistest.WaitUp(t, a.store)
	redistest.WaitUp(t, b.store)
	isLost(t, a, b, id)
}

// TestRedisForgetsAll shows that a stream which was there is not taken for one that
// begins.
func TestRedisForgetsAll(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	begin(t, a, "s", "p1", true)
	id := add(t, a, "s", "p1", "1", false)
	add(t, b, "s", "q1", "1", false)
	want(t, b, "s", "q1", "", "1", true)
	a.does(t, "FLUSHALL", "SYNC")
	want(t, b, "s", "q1", "", unknown, false)
	want(t, b, "s", "p1", id, unknown, false)
	want(t, b, "s", "p1", eventlog.FirstID("p1"), unknown, false)
	if _, err := b.Append(t.Context(), of("s"), "q1", nil, true); !errors.Is(err, eventlog.ErrUnknown) {
		t.Errorf("append to a stream that was lost: got %v, want ErrUnknown", err)
	}
	add(t, a, "s", "p1", "2", false)
	if is := fleeting(t, a, "p1"); len(is) != 2 || !is[1] {
		t.Errorf("fleeting: got %v, want the second", is)
	}
}

// TestTheNewestEventsComeBackAfterAFailover puts back a stream as it was before the last
// events, as a replica of the server that takes over may have it.
func TestTheNewestEventsComeBackAfterAFailover(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		t.Run(strconv.FormatBool(ends), func(t *testing.T) {
			h := newHouse(t)
			a, b := h.join(t), h.join(t)
			begin(t, a, "s", "p1", true)
			id := add(t, a, "s", "p1", "1", false)
			dump, err := a.does(t, "DUMP", streamKey).Text()
			if err != nil {
				t.Fatal(err)
			}
			add(t, a, "s", "p1", "2", false)
			add(t, a, "s", "p1", "3", ends)
			a.does(t, "RESTORE", streamKey, "60000", dump, "REPLACE")
			want(t, b, "s", "p1", id, "", true)
			h.server.Exec(t, "CLIENT", "KILL", "TYPE", "normal") // which is over before anybody is missed
			eventually(t, "what was lost is there again", func() bool {
				text, _ := read(t, b, "s", "p1", id)
				return text == "2 3"
			})
			want(t, b, "s", "p1", id, "2 3", !ends)
		})
	}
}

// TestAnEventLostBetweenOthersIsNotPassedOver is the same when the next event comes
// before it is looked what was lost.
func TestAnEventLostBetweenOthersIsNotPassedOver(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	begin(t, a, "s", "p1", true)
	id := add(t, a, "s", "p1", "1", false)
	dump, _ := a.does(t, "DUMP", streamKey).Text()
	second := add(t, a, "s", "p1", "2", false)
	a.does(t, "RESTORE", streamKey, "60000", dump, "REPLACE")
	add(t, a, "s", "p1", "3", false)
	want(t, b, "s", "p1", id, unknown, false)
	want(t, b, "s", "p1", second, "3", true)
}

// TestWhatIsToBeDroppedDoesNotPileUp begins many streams while the server cannot be
// reached: each is to be taken out of it later. When they are too old to be there in any
// case, nothing is tried any more.
func TestWhatIsToBeDroppedDoesNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		var hub replicatest.Hub
		l := eventlog.NewRedis(eventlog.RedisConfig{
			MemoryConfig: eventlog.MemoryConfig{Age: 5 * time.Second},
			Store: redis.New(redis.Config{Called: func(kind string, _ redis.Outcome, _ time.Duration) {
				if kind == "stream" {
					tries.Add(1)
				}
			}}),
			Seal: seal.RandomRing(), Others: hub.Join(),
		})
		lifetimetest.Run(t, l.Run)
		for n := range 2000 {
			begin(t, l, fmt.Sprint("s", n), "p1", false)
		}
		time.Sleep(65 * time.Second)
		before := tries.Load()
		time.Sleep(time.Minute)
		if after := tries.Load(); before == 0 || after != before {
			t.Errorf("tried %d times, and then %d times more, want none more", before, after-before)
		}
	})
}
