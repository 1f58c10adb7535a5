package eventlog_test

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

func begin(t *testing.T, l eventlog.Log, in, stream string, lasting bool) {
	t.Helper()
	if got, err := l.Begin(t.Context(), of(in), stream); got != lasting || err != nil {
		t.Fatalf("begin %s of %s: got %t, %v; want %t", stream, in, got, err, lasting)
	}
}

// does runs a command that no replica runs.
func (r *resident) does(t *testing.T, name, key string, args ...string) redis.Reply {
	t.Helper()
	reply, err := r.admin.Do(t.Context(), redis.Command{Name: name, Key: key, Args: args})
	if err != nil {
		t.Fatalf("%s %s: %v", name, key, err)
	}
	return reply
}

// trips returns how many round trips there were, other than this one.
func (r *resident) trips(t *testing.T) (n int) {
	t.Helper()
	text, err := r.does(t, "INFO", "commandstats").Text()
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`cmdstat_(?:evalsha|hgetall):calls=(\d+)`).FindAllStringSubmatch(
		text, -1) {
		calls, _ := strconv.Atoi(found[1])
		n += calls
	}
	return n
}

const streamKey = "db2:{acme}:stream:p1:s"

func TestAStreamIsReadElsewhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	begin(t, a, "s", "p1", true)
	want(t, b, "s", "p1", eventlog.FirstID("p1"), "", true)
	var f follower
	if err := b.Follow(t.Context(), of("s"), &f); err != nil {
		t.Fatal(err)
	}
	after := eventlog.FirstID("p1")
	for n := range 20 {
		before := f.n.Load()
		id := add(t, a, "s", "p1", fmt.Sprint(n), n == 19)
		eventually(t, "word of the event", func() bool { return f.n.Load() > before })
		want(t, b, "s", "p1", after, fmt.Sprint(n), n < 19)
		after = id
	}
	want(t, b, "s", "p1", after, "", false)
	want(t, a, "s", "p1", after, "", false)
	if stream, err := b.Find(t.Context(), of("s"), after); stream != "p1" || err != nil {
		t.Errorf("find the last event: got %q, %v", stream, err)
	}
}

// TestLargeStreamIsReadInPages reads 200 KB of events at another replica: no answer of
// Redis has all of them, since what others ask waits behind it.
func TestLargeStreamIsReadInPages(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	begin(t, a, "s", "p1", true)
	var all []string
	for n := range 20 {
		event := strings.Repeat(fmt.Sprint(n%10), 10_000)
		all = append(all, event)
		add(t, a, "s", "p1", event, n == 19)
	}
	before := a.trips(t)
	want(t, b, "s", "p1", eventlog.FirstID("p1"), strings.Join(all, " "), false)
	if got := a.trips(t) - before; got < 4 || got > 5 {
		t.Errorf("got %d round trips, want one for each 64 KiB", got)
	}
}

// TestOthersAppendToAStreamThatOneReplicaBegan is the case of a connection that went on
// at another replica, with notices.
func TestOthersAppendToAStreamThatOneReplicaBegan(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	var f follower
	begin(t, a, "s", "p1", true)
	if err := a.Follow(t.Context(), of("s"), &f); err != nil {
		t.Fatal(err)
	}
	first := add(t, a, "s", "p1", "1", false)
	woken := f.n.Load()
	add(t, b, "s", "p1", "2", false)
	eventually(t, "word to the replica that began the stream", func() bool { return f.n.Load() > woken })
	want(t, a, "s", "p1", first, "2", true)
	add(t, a, "s", "p1", "3", false)
	add(t, b, "s", "p1", "4", true)
	for _, r := range []*resident{a, b} {
		want(t, r, "s", "p1", eventlog.FirstID("p1"), "1 2 3 4", false)
		if _, err := r.Append(t.Context(), of("s"), "p1", []byte("5"), false); !errors.Is(err,
			eventlog.ErrUnknown) {
			t.Errorf("after the last event: got %v, want ErrUnknown", err)
		}
	}
}

// TestAppendedInTurnAStreamStaysWithinItsBound: a replica forgets what it has of a stream
// when another one appends, so neither ever holds as many events as are to be dropped.
func TestAppendedInTurnAStreamStaysWithinItsBound(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	few := func(c *eventlog.RedisConfig) { c.Count = 3 }
	both := []*resident{h.join(t, few), h.join(t, few)}
	begin(t, both[0], "s", "p1", true)
	var ids []string
	for n := range 40 {
		ids = append(ids, add(t, both[n%2], "s", "p1", fmt.Sprint(n), false))
	}
	if n, err := both[0].does(t, "XLEN", streamKey).Int(); n > 4 || err != nil {
		t.Errorf("the server has %d entries of the stream, %v; want 4 at most", n, err)
	}
	for _, r := range both {
		want(t, r, "s", "p1", ids[36], "37 38 39", true)
		want(t, r, "s", "p1", ids[30], unknown, false)
	}
}

// TestAStreamThatCameHere takes a stream over from the replica that began it, which has
// to hear of what is appended. What comes then is read without a round trip, and the
// stream goes on without the server; what was there before is read from that.
func TestAStreamThatCameHere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	begin(t, a, "s", "g0", true)
	begin(t, b, "s", "g0", true)
	begin(t, a, "s", "g1", true)
	first := add(t, a, "s", "g1", "1", false)
	second := add(t, a, "s", "g1", "2", false)
	for n, r := range []*resident{b, a, b} { // to and fro
		begin(t, r, "s", "g1", true)
		before := r.trips(t)
		want(t, r, "s", "g1", second, "", true)
		want(t, b, "s", "g0", eventlog.FirstID("g0"), "", true)
		if got := r.trips(t) - before; got != 0 && n > 0 || got > 1 {
			t.Errorf("got %d round trips to read what came last, want none after the first time", got)
		}
		next := add(t, r, "s", "g1", "x", false)
		want(t, r, "s", "g1", second, "x", true)
		for _, other := range []*resident{a, b} {
			eventually(t, "the other has heard of it", func() bool {
				events, _, err := other.Read(t.Context(), of("s"), "g1", second)
				return len(events) == 1 && err == nil
			})
		}
		want(t, r, "s", "g1", first, "2 x x x"[:3+2*n], true)
		second = next
	}
	h.server.Stop()
	if _, err := b.Append(t.Context(), of("s"), "g1", []byte("y"), false); err != nil {
		t.Fatal(err)
	}
	events, more, err := b.Read(t.Context(), of("s"), "g1", second)
	if len(events) != 1 || !events[0].LocalOnly || !more || err != nil {
		t.Errorf("without the server: got %v, %t, %v, want one event that is here only", events, more, err)
	}
}

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	ctx, key := t.Context(), of("s")
	var f follower
	last := ""
	for _, step := range []struct {
		name string
		want int
		do   func() error
	}{
		{"begin", 1, func() error { _, err := a.Begin(ctx, key, "p1"); return err }},
		{"follow", 0, func() error { return a.Follow(ctx, key, &f) }},
		{"append", 1, func() (
			err error,
		) {
			last, err = a.Append(ctx, key, "p1", []byte("x"), false)
			return err
		}},
		{"read from the beginning", 0, func() error { _, _, err := a.Read(ctx, key, "p1", ""); return err }},
		{"read", 0, func() error { _, _, err := a.Read(ctx, key, "p1", last); return err }},
		{"find", 0, func() error { _, err := a.Find(ctx, key, last); return err }},
		{"follow elsewhere", 0, func() error { return b.Follow(ctx, key, &f) }},
		{"find elsewhere", 1, func() error { _, err := b.Find(ctx, key, last); return err }},
		{"read elsewhere", 1, func() error { _, _, err := b.Read(ctx, key, "p1", last); return err }},
		{"a notice", 1, func() error { _, err := a.Notify(ctx, key, "p1", 7, []byte("x")); return err }},
		{
			"append to what nobody began", 2,
			func() error { _, err := a.Append(ctx, key, "q1", []byte("x"), false); return err },
		},
		{
			"append to it again", 1,
			func() error { _, err := a.Append(ctx, key, "q1", []byte("x"), true); return err },
		},
		{"unfollow", 0, func() error { a.Unfollow(key, &f); return nil }},
		{"drop", 0, func() error { a.Drop(ctx, key, "p1", last); return nil }},
		{"end", 0, func() error { a.End(key); return nil }},
		{"a session of one replica", 0, func() error {
			only := eventlog.Key{Name: "only", Owner: key.Owner, Here: true}
			_, err1 := a.Begin(ctx, only, "s")
			_, err2 := a.Append(ctx, only, "s", []byte("x"), false)
			_, _, err3 := a.Read(ctx, only, "s", "")
			a.End(only)
			return errors.Join(err1, err2, err3)
		}},
	} {
		before := a.trips(t)
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		// The first run of each script loads it, by a command that is not counted.
		if got := a.trips(t) - before; got != step.want {
			t.Errorf("%s: got %d round trips, want %d", step.name, got, step.want)
		}
	}
}

func TestWhatIsDroppedHereIsDroppedInRedis(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t, func(c *eventlog.RedisConfig) { c.Count = 3 }), h.join(t)
	begin(t, a, "s", "p1", true)
	var ids []string
	for n := range 10 {
		ids = append(ids, add(t, a, "s", "p1", fmt.Sprint(n), false))
	}
	length := func() int64 { n, _ := a.does(t, "XLEN", streamKey).Int(); return n }
	eventually(t, "three entries are left", func() bool { return length() == 3 })
	for _, r := range []*resident{a, b} {
		want(t, r, "s", "p1", eventlog.FirstID("p1"), unknown, false)
		want(t, r, "s", "p1", ids[0], unknown, false)
		want(t, r, "s", "p1", ids[6], "7 8 9", true)
	}
	a.Drop(t.Context(), of("s"), "p1", ids[9])
	eventually(t, "no entry is left", func() bool { return length() == 0 })
	want(t, b, "s", "p1", ids[9], "", true)
	want(t, b, "s", "p1", ids[8], unknown, false)
	last := add(t, a, "s", "p1", "last", true)
	want(t, b, "s", "p1", ids[9], "last", false)
	a.Drop(t.Context(), of("s"), "p1", last)
	eventually(t, "the last entry is dropped", func() bool { return length() == 0 })
	want(t, b, "s", "p1", last, "", false)
}

// TestAStreamMayBeForgottenBeforeRedisIsToldWhatItDropped has a replica that gets to what
// it is to drop in Redis only when the stream is too old, and is not there any more.
func TestAStreamMayBeForgottenBeforeRedisIsToldWhatItDropped(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var passed atomic.Int64 // of the replica's time
	now := func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	store := redis.New(h.server.Config())
	a := &resident{admin: h.server.Admin(t), Redis: eventlog.NewRedis(eventlog.RedisConfig{
		MemoryConfig: eventlog.MemoryConfig{Age: time.Hour, Count: 1, Now: now},
		Store:        store, Seal: h.ring, Others: h.hub.Join(),
	})}
	redistest.Run(t, store)
	begin(t, a, "s", "p1", true)
	add(t, a, "s", "p1", "dropped", false)
	add(t, a, "s", "p1", "newest", false)
	passed.Store(int64(2 * time.Hour))
	begin(t, a, "t", "p1", true)
	add(t, a, "t", "p1", "forgets what is too old", false)
	lifetimetest.Run(t, a.Run)
	eventually(t, "nothing of the old stream is left", func() bool {
		there, _ := a.does(t, "EXISTS", streamKey).Int()
		return there == 0
	})
}

// TestOneUserLeavesTheEventsOfOthersInRedis shows that shares hold for what is in the
// server, too.
func TestOneUserLeavesTheEventsOfOthersInRedis(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t, func(c *eventlog.RedisConfig) { c.Memory = share.New(16 << 20) }), h.join(t)
	quiet := sessionOf("acme", "bob", 0)
	id, err := a.Append(t.Context(), quiet, "p1", make([]byte, 30_000), false)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		in := sessionOf("acme", "loud", n)
		if _, err := a.Begin(t.Context(), in, "p1"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Append(t.Context(), in, "p1", make([]byte, 200_000), false); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "redis holds no more than the replica may", func() bool {
		text, _ := a.does(t, "INFO", "memory").Text()
		used, _ := strconv.Atoi(regexp.MustCompile(`used_memory_dataset:(\d+)`).FindStringSubmatch(text)[1])
		return used < 12<<20
	})
	if _, err := b.Find(t.Context(), quiet, id); err != nil {
		t.Errorf("the event of a user who has little: got %v", err)
	}
}

// TestNothingIsLeftOfASession ends a session at each replica that has a part of it.
func TestNothingIsLeftOfASession(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	begin(t, a, "s", "p1", true)
	begin(t, b, "s", "p2", true)
	add(t, a, "s", "p1", "a", false)
	add(t, b, "s", "p2", "b", false)
	a.End(of("s"))
	b.End(of("s"))
	for i, r := range []*resident{a, b} {
		_, err1 := r.Append(t.Context(), of("s"), "p2", []byte("late"), false)
		_, err2 := r.Begin(t.Context(), of("s"), "p3")
		if !errors.Is(err1, eventlog.ErrUnknown) || !errors.Is(err2, eventlog.ErrUnknown) {
			t.Errorf("replica %d: got %v, %v, want ErrUnknown", i, err1, err2)
		}
	}
	eventually(t, "nothing of the session is left", func() bool {
		keys, _ := a.does(t, "KEYS", "db2:{acme}:*").List()
		return len(keys) == 0
	})
}

// TestALateNoticeIsRefused appends notices of two primaries, of which the first was taken
// for dead.
func TestALateNoticeIsRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	begin(t, a, "s", "g1", true)
	a.does(t, "HSET", "db2:{acme}:session:s", "epoch", "8", "primary", "b")
	if _, err := b.Notify(t.Context(), of("s"), "g1", 8, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Notify(t.Context(), of("s"), "g1", 7, []byte("late")); !errors.Is(err, eventlog.ErrFenced) {
		t.Errorf("got %v, want ErrFenced", err)
	}
	add(t, a, "s", "g1", "of a call", false)
	want(t, b, "s", "g1", eventlog.FirstID("g1"), "new of a call", true)
}

func TestAllKeysGoByThemselves(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	begin(t, a, "s", "p1", true)
	add(t, a, "s", "p1", "a", false)
	want(t, b, "s", "p1", eventlog.FirstID("p1"), "a", true)
	add(t, b, "s", "q1", "a", false)
	add(t, b, "s", "q2", "a", true)
	keys, err := a.does(t, "KEYS", "db2:{acme}:*").List()
	if err != nil || len(keys) < 5 {
		t.Fatalf("got %d keys, %v", len(keys), err)
	}
	for _, k := range keys {
		name, _ := k.Text()
		if left, err := a.does(t, "PTTL", name).Int(); left <= 0 || err != nil {
			t.Errorf("%s: got %d ms left, %v; want some", name, left, err)
		}
	}
}

// TestAStreamThatIsReadElsewhereStays lets the replica that appends believe that time
// passes. The stream of a session that has ended goes, whoever has read it: nobody tells
// a replica that leads the session no more, so it stayed for as long as both lived.
func TestAStreamThatIsReadElsewhereStays(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var mu sync.Mutex
	now := time.Now()
	pass := func(d time.Duration) { mu.Lock(); now = now.Add(d); mu.Unlock() }
	a := h.join(t, func(c *eventlog.RedisConfig) {
		c.Age, c.Now = time.Minute, func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	b := h.join(t)
	begin(t, a, "s", "p1", true)
	begin(t, a, "s", "p2", true)
	begin(t, a, "ended", "p1", true)
	a.does(t, "HSET", "db2:{acme}:session:s", "epoch", "1", "primary", "b")
	id := add(t, a, "s", "p1", "a", false)
	want(t, b, "s", "p1", "", "a", true)
	want(t, b, "ended", "p1", "", "", true)
	for range 4 {
		pass(50 * time.Second)
		a.Renew(t.Context())
	}
	add(t, a, "t", "p1", "sweeps", false)
	before := a.trips(t)
	add(t, a, "s", "p1", "b", false)
	if got := a.trips(t) - before; got != 1 {
		t.Errorf("got %d round trips, want 1: the stream was forgotten", got)
	}
	want(t, b, "s", "p1", id, "b", true)
	eventually(t, "the streams that nobody reads, or that nobody appends to, are gone", func() bool {
		n1, _ := a.does(t, "EXISTS", "db2:{acme}:stream:p2:s").Int()
		n2, _ := a.does(t, "EXISTS", "db2:{acme}:stream:p1:ended").Int()
		return n1+n2 == 0
	})
}

// TestWhoHasReadAStreamToItsEndIsForgotten reads a stream that has ended at another
// replica, which lives on: the stream is not kept for that.
func TestWhoHasReadAStreamToItsEndIsForgotten(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	begin(t, a, "s", "p1", true)
	add(t, a, "s", "p1", "a", true)
	want(t, b, "s", "p1", "", "a", false)
	const readers = "db2:{acme}:readers:p1:s"
	a.does(t, "PEXPIRE", readers, "10000")
	a.Renew(t.Context())
	if left, err := a.does(t, "PTTL", readers).Int(); left > 10_000 || err != nil {
		t.Errorf("its readers are kept for %d ms, error %v; want 10000 at most", left, err)
	}
}

func TestNobodyBelievesWhatOthersWroteIntoRedis(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	first := eventlog.FirstID("p1")
	for name, forge := range map[string]func(t *testing.T, key, other string){
		"an entry": func(t *testing.T, key, _ string) {
			a.does(t, "XADD", key, "18446744073709551615-1", "d", "forged")
		},
		"an entry of the future": func(t *testing.T, key,
			_ string,
		) {
			a.does(t, "XADD", key, "*", "d", "forged")
		},
		"another stream": func(t *testing.T, key,
			other string,
		) {
			a.does(t, "COPY", other, key, "REPLACE")
		},
		"a missing entry": func(t *testing.T, key, _ string) {
			entries, _ := a.does(t, "XRANGE", key, "-", "+").Entries()
			a.does(t, "XDEL", key, entries[2].ID)
		},
		"a missing head": func(t *testing.T, key, _ string) {
			entries, _ := a.does(t, "XRANGE", key, "-", "+").Entries()
			a.does(t, "XDEL", key, entries[0].ID)
		},
		"other fields": func(t *testing.T, key, _ string) {
			entries, _ := a.does(t, "XRANGE", key, "-", "+").Entries()
			a.does(t, "DEL", key)
			for _, e := range entries {
				a.does(t, "XADD", key, e.ID, "e", e.FieldValues["d"])
			}
		},
		"nothing": func(t *testing.T, key, _ string) { a.does(t, "DEL", key) },
	} {
		t.Run(name, func(t *testing.T) {
			in := strings.ReplaceAll(name, " ", "")
			for _, s := range []string{in, in + "2"} {
				begin(t, a, s, "p1", true)
				for range 3 {
					add(t, a, s, "p1", "x", false)
				}
			}
			want(t, b, in, "p1", first, "x x x", true)
			forge(t, "db2:{acme}:stream:p1:"+in, "db2:{acme}:stream:p1:"+in+"2")
			want(t, b, in, "p1", first, unknown, false)
		})
	}
	if h.refused.Load() == 0 {
		t.Error("nothing was counted as refused")
	}
}

func TestAnIDOfAnyoneIsNoForgery(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	a, b := h.join(t), h.join(t)
	begin(t, a, "s", "p1", true)
	id := add(t, a, "s", "p1", "a", false)
	_, digits, _ := strings.Cut(id, "-")
	n, _ := strconv.ParseUint(digits, 10, 64)
	for _, digits := range []uint64{1, n - 2, n + 1, 1<<64 - 1} {
		event := "p1-" + strconv.FormatUint(digits, 10)
		if _, err := b.Find(t.Context(), of("s"), event); !errors.Is(err, eventlog.ErrUnknown) {
			t.Errorf("find %s: got %v, want ErrUnknown", event, err)
		}
	}
	if h.refused.Load() != 0 {
		t.Error("an id that a client made up counts as a forged value")
	}
}

// TestSessionsOfADayDoNotStayInMemory: a replica forgets sessions that have ended or went
// on elsewhere when their events are too old. It remembered each for a day, and nothing
// counted that.
func TestSessionsOfADayDoNotStayInMemory(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	r := newHouse(t).join(t, func(cfg *eventlog.RedisConfig) {
		cfg.Now = func() time.Time { return time.Unix(1e9+now.Load(), 0) }
	})
	const sessions = 50
	for n := range sessions {
		begin(t, r, fmt.Sprint("ended", n), "p1", true)
		begin(t, r, fmt.Sprint("elsewhere", n), "p1", true)
		r.End(of(fmt.Sprint("ended", n)))
	}
	now.Store(10 * 60) // twice the age of events
	begin(t, r, "new", "p1", true)
	add(t, r, "new", "p1", "x", false) // looks for what is too old
	if n := r.Sessions(); n != 1 {
		t.Errorf("%d sessions are remembered, want the new one", n)
	}
}
