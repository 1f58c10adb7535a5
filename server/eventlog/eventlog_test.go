package eventlog_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// suite is what every Log does.
func suite(t *testing.T, open func(*testing.T) eventlog.Log) {
	for name, test := range map[string]func(*testing.T, eventlog.Log){
		"events in order":         eventsInOrder,
		"streams apart":           streamsApart,
		"readers wake":            followersWake,
		"followers are woken":     followersHear,
		"followers read":          followersRead,
		"dropped":                 droppedIsGone,
		"end":                     endForgets,
		"unknown":                 unknownEvents,
		"ids are unique":          idsAreUnique,
		"many writers and reader": manyWriters,
		"a stream ends once":      endsOnce,
		"one replica appends":     beginsAlone,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func TestMemory(t *testing.T) {
	suite(t, func(*testing.T) eventlog.Log { return eventlog.NewMemory(eventlog.MemoryConfig{}) })
}

// of names a session of alice.
func of(name string) eventlog.Key {
	return eventlog.Key{Name: name, Owner: share.User{TenantID: "acme", Issuer: "i", Subject: "alice"}}
}

func add(t *testing.T, l eventlog.Log, in, stream, data string, last bool) string {
	t.Helper()
	id, err := l.Append(t.Context(), of(in), stream, []byte(data), last)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// read returns the data of the events after an id, and whether more may follow.
func read(t *testing.T, l eventlog.Log, in, stream, after string) (string, bool) {
	t.Helper()
	events, more, err := l.Read(t.Context(), of(in), stream, after)
	if err != nil {
		return err.Error(), false
	}
	var data []string
	for _, e := range events {
		data = append(data, string(e.Data))
	}
	return strings.Join(data, " "), more
}

func want(t *testing.T, l eventlog.Log, in, stream, after, data string, more bool) {
	t.Helper()
	if gotData, gotMore := read(t, l, in, stream, after); gotData != data || gotMore != more {
		t.Errorf("%s of %s after %q: got %q, more %t; want %q, %t", stream, in, after, gotData, gotMore, data,
			more)
	}
}

const unknown = "unknown stream or event"

func eventsInOrder(t *testing.T, l eventlog.Log) {
	want(t, l, "s", "p1", "", unknown, false)
	a := add(t, l, "s", "p1", "a", false)
	b := add(t, l, "s", "p1", "b", false)
	want(t, l, "s", "p1", "", "a b", true)
	want(t, l, "s", "p1", eventlog.FirstID("p1"), "a b", true)
	want(t, l, "s", "p1", a, "b", true)
	want(t, l, "s", "p1", b, "", true)
	c := add(t, l, "s", "p1", "c", true)
	want(t, l, "s", "p1", a, "b c", false)
	want(t, l, "s", "p1", c, "", false)
}

// followersRead shows which event is the last, and what more says.
func followersRead(t *testing.T, l eventlog.Log) {
	a := add(t, l, "s", "p1", "a", false)
	add(t, l, "s", "p1", "b", false)
	events, more, err := l.Read(t.Context(), of("s"), "p1", a)
	if err != nil || !more || len(events) != 1 || string(events[0].Data) != "b" || events[0].Last {
		t.Errorf("after the first: got %v, more %t, %v; want b, and that more may follow", events, more, err)
	}
	add(t, l, "s", "p1", "c", true)
	events, more, err = l.Read(t.Context(), of("s"), "p1", "")
	if err != nil || more || len(events) != 3 || events[1].Last || !events[2].Last {
		t.Errorf("at the end: got %v, more %t, %v; want three events, of which the third is the last", events,
			more, err)
	}
	if _, more, err = l.Read(t.Context(), of("s"), "p1", "p1-99"); more ||
		!errors.Is(err, eventlog.ErrUnknown) {
		t.Errorf("after what is not there: got more %t, %v; want ErrUnknown", more, err)
	}
}

func droppedIsGone(t *testing.T, l eventlog.Log) {
	a := add(t, l, "s", "p1", "a", false)
	b := add(t, l, "s", "p1", "b", false)
	add(t, l, "s", "p1", "c", false)
	other := add(t, l, "s", "p2", "d", false)
	l.Drop(t.Context(), of("s"), "p1", other) // names no event of the stream
	l.Drop(t.Context(), of("unknown"), "p1", a)
	l.Drop(t.Context(), of("s"), "p3", eventlog.FirstID("p3"))
	want(t, l, "s", "p1", "", "a b c", true)
	l.Drop(t.Context(), of("s"), "p1", b)
	want(t, l, "s", "p1", a, unknown, false)
	want(t, l, "s", "p1", "", unknown, false)
	want(t, l, "s", "p1", b, "c", true)
	want(t, l, "s", "p2", "", "d", true)
	last := add(t, l, "s", "p1", "e", true)
	l.Drop(t.Context(), of("s"), "p1", last)
	want(t, l, "s", "p1", last, "", false)
}

func streamsApart(t *testing.T, l eventlog.Log) {
	a := add(t, l, "s", "p1", "a", false)
	add(t, l, "s", "p2", "b", false)
	add(t, l, "other", "p1", "c", false)
	want(t, l, "s", "p1", "", "a", true)
	want(t, l, "s", "p2", "", "b", true)
	want(t, l, "s", "p2", a, unknown, false)
	if stream, err := l.Find(t.Context(), of("s"), a); stream != "p1" || err != nil {
		t.Errorf("find %q: got %q, %v; want p1", a, stream, err)
	}
	if stream, err := l.Find(t.Context(), of("third"), a); !errors.Is(err, eventlog.ErrUnknown) {
		t.Errorf("find %q in another session: got %q, %v; want ErrUnknown", a, stream, err)
	}
}

// wakeup is a follower that holds a value when it was told.
type wakeup chan struct{}

func (w wakeup) Appended() {
	select {
	case w <- struct{}{}:
	default: // it holds one
	}
}

func followersWake(t *testing.T, l eventlog.Log) {
	more := make(wakeup, 1)
	if err := l.Follow(t.Context(), of("s"), more); err != nil {
		t.Fatal(err)
	}
	add(t, l, "s", "p1", "a", false)
	<-more
	select {
	case <-more:
		t.Error("woken without an event")
	default:
	}
	l.End(of("s"))
	<-more
}

// follower counts how often it is told.
type follower struct{ n atomic.Int64 }

func (s *follower) Appended() { s.n.Add(1) }

func followersHear(t *testing.T, l eventlog.Log) {
	var one, two, elsewhere follower
	for in, f := range map[*follower]string{&one: "s", &two: "s", &elsewhere: "other"} {
		if err := l.Follow(t.Context(), of(f), in); err != nil {
			t.Fatal(err)
		}
	}
	want := func(when string, first, second int64) {
		t.Helper()
		if a, b, c := one.n.Load(), two.n.Load(), elsewhere.n.Load(); a != first || b != second || c != 0 {
			t.Errorf("%s: woken %d, %d and %d times, want %d, %d and 0", when, a, b, c, first, second)
		}
	}
	add(t, l, "s", "p1", "a", false)
	add(t, l, "s", "p2", "b", true)
	want("two events", 2, 2)
	l.Unfollow(of("s"), &one)
	l.Unfollow(of("s"), &one)
	l.Unfollow(of("unknown"), &one)
	add(t, l, "s", "p1", "c", false)
	want("one follows no more", 2, 3)
	l.End(of("s"))
	want("the end", 2, 4)
	if err := l.Follow(t.Context(), of("s"), &one); !errors.Is(err, eventlog.ErrUnknown) {
		t.Errorf("follow a session that has ended: got %v, want ErrUnknown", err)
	}
}

func endForgets(t *testing.T, l eventlog.Log) {
	a := add(t, l, "s", "p1", "a", false)
	l.End(of("s"))
	want(t, l, "s", "p1", "", unknown, false)
	if _, err := l.Append(t.Context(), of("s"), "p1", []byte("late"), true); !errors.Is(err,
		eventlog.ErrUnknown) {
		t.Errorf("append after the end: got %v, want ErrUnknown", err)
	}
	if _, err := l.Find(t.Context(), of("s"), a); !errors.Is(err, eventlog.ErrUnknown) {
		t.Errorf("find after the end: got %v, want ErrUnknown", err)
	}
	l.End(of("never was"))
}

func unknownEvents(t *testing.T, l eventlog.Log) {
	id := add(t, l, "s", "p1", "a", false)
	for _, event := range []string{
		"", "p1", "p1-", "-1", "p1--1", "p1-+1", "p1-01", "p1-1 ", "p1-99", "p2-1", "p1-18446744073709551616",
		id + "-1",
		strings.Repeat("p", 100) + "-1", "p1-1\x00",
	} {
		if stream, err := l.Find(t.Context(), of("s"), event); !errors.Is(err, eventlog.ErrUnknown) {
			t.Errorf("find %q: got %q, %v; want ErrUnknown", event, stream, err)
		}
		if event != "" {
			want(t, l, "s", "p1", event, unknown, false)
		}
	}
}

func idsAreUnique(t *testing.T, l eventlog.Log) {
	seen := make(map[string]bool)
	for i := range 100 {
		id := add(t, l, "s", fmt.Sprintf("p%d", i%7), "x", false)
		if seen[id] || strings.ContainsAny(id, "\r\n\x00") {
			t.Errorf("id %q was used before, or breaks the stream", id)
		}
		seen[id] = true
	}
}

func endsOnce(t *testing.T, l eventlog.Log) {
	add(t, l, "a", "q", "1", true)
	for _, last := range []bool{false, true} {
		if _, err := l.Append(t.Context(), of("a"), "q", []byte("2"), last); !errors.Is(err,
			eventlog.ErrUnknown) {
			t.Errorf("after the last event, last %t: got %v, want ErrUnknown", last, err)
		}
	}
	want(t, l, "a", "q", "", "1", false)
}

// beginsAlone shows that a stream of Begin is like any other.
func beginsAlone(t *testing.T, l eventlog.Log) {
	for range 2 {
		if lasting, err := l.Begin(t.Context(), of("s"), "p1"); !lasting || err != nil {
			t.Fatalf("begin: got %t, %v", lasting, err)
		}
	}
	want(t, l, "s", "p1", eventlog.FirstID("p1"), "", true)
	a := add(t, l, "s", "p1", "a", false)
	b := add(t, l, "s", "p1", "b", true)
	want(t, l, "s", "p1", "", "a b", false)
	want(t, l, "s", "p1", a, "b", false)
	want(t, l, "s", "p1", b, "", false)
	for _, id := range []string{a, b, eventlog.FirstID("p1")} {
		if stream, err := l.Find(t.Context(), of("s"), id); stream != "p1" || err != nil {
			t.Errorf("find %q: got %q, %v", id, stream, err)
		}
	}
	if _, err := l.Append(t.Context(), of("s"), "p1", []byte("c"), true); !errors.Is(err,
		eventlog.ErrUnknown) {
		t.Errorf("after the last event: got %v, want ErrUnknown", err)
	}
	l.End(of("s"))
	if _, err := l.Begin(t.Context(), of("s"), "p2"); !errors.Is(err, eventlog.ErrUnknown) {
		t.Errorf("begin after the end: got %v, want ErrUnknown", err)
	}
}

// manyWriters shows that a reader who waits misses nothing and gets nothing twice.
func manyWriters(t *testing.T, l eventlog.Log) {
	begin(t, l, "s", "p1", true)
	const writers, each = 8, 50
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if _, err := l.Append(t.Context(), of("s"), "p1", fmt.Appendf(nil, "%d-%d", w, i),
					false); err != nil {
					t.Error(err)
				}
			}
		})
	}
	seen, after, more := make(map[string]bool), "", make(wakeup, 1)
	if err := l.Follow(t.Context(), of("s"), more); err != nil {
		t.Fatal(err)
	}
	for len(seen) < writers*each {
		events, _, err := l.Read(t.Context(), of("s"), "p1", after)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if seen[string(e.Data)] {
				t.Errorf("%s came twice", e.Data)
			}
			seen[string(e.Data)], after = true, e.ID
		}
		if len(seen) < writers*each {
			<-more
		}
	}
	all.Wait()
}

func TestMemoryBoundsCount(t *testing.T) {
	l := eventlog.NewMemory(eventlog.MemoryConfig{Count: 3})
	ids := make([]string, 5)
	for i := range ids {
		ids[i] = add(t, l, "s", "p1", fmt.Sprint(i), false)
	}
	want(t, l, "s", "p1", ids[0], unknown, false)
	want(t, l, "s", "p1", "", unknown, false)
	want(t, l, "s", "p1", ids[1], "2 3 4", true) // what follows it is all there
	want(t, l, "s", "p1", ids[2], "3 4", true)
}

func TestMemoryBoundsBytes(t *testing.T) {
	l := eventlog.NewMemory(eventlog.MemoryConfig{Bytes: 2000})
	first := add(t, l, "s", "p1", "first", false)
	second := add(t, l, "s", "p1", strings.Repeat("x", 1900), false)
	want(t, l, "s", "p1", second, "", true)
	big := strings.Repeat("y", 5000)
	add(t, l, "s", "p1", big, true) // larger than all that may be kept, and kept: it is the answer
	want(t, l, "s", "p1", first, unknown, false)
	want(t, l, "s", "p1", second, big, false)
}

func TestMemoryBoundsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := eventlog.NewMemory(eventlog.MemoryConfig{Age: time.Minute})
		left := add(t, l, "s", "p1", "a", true)
		read1 := add(t, l, "s", "g1", "b", false)
		for range 10 {
			<-time.After(20 * time.Second)
			want(t, l, "s", "g1", read1, "", true)
		}
		if _, err := l.Find(t.Context(), of("s"), left); !errors.Is(err, eventlog.ErrUnknown) {
			t.Errorf("a stream that ended and nobody reads: got %v, want ErrUnknown", err)
		}
		read2 := add(t, l, "s", "g1", "c", false)
		want(t, l, "s", "g1", read1, "c", true)
		want(t, l, "s", "g1", read2, "", true)
		if read1 == read2 || read2 == left {
			t.Errorf("ids %q, %q, %q: one was used twice", left, read1, read2)
		}
	})
}

func FuzzFind(f *testing.F) {
	f.Add("p1-1")
	f.Add("p1-0")
	f.Add("-")
	l := eventlog.NewMemory(eventlog.MemoryConfig{})
	id, err := l.Append(f.Context(), of("s"), "p1", []byte("a"), false)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, event string) {
		stream, err := l.Find(t.Context(), of("s"), event)
		if known := event == id || event == eventlog.FirstID("p1"); known != (err == nil) || err == nil &&
			stream != "p1" {
			t.Errorf("find %q: got %q, %v", event, stream, err)
		}
	})
}

// isEnded tells whether a session has ended as far as a log remembers.
func isEnded(t *testing.T, l eventlog.Log, in string) bool {
	t.Helper()
	return errors.Is(l.Follow(t.Context(), of(in), &follower{}), eventlog.ErrUnknown)
}

// TestMemoryRemembersEnds shows that a session stays ended as long as its id may live.
func TestMemoryRemembersEnds(t *testing.T) {
	now := time.Unix(1e9, 0)
	l := eventlog.NewMemory(eventlog.MemoryConfig{Now: func() time.Time { return now }})
	l.End(of("a"))
	now = now.Add(24 * time.Hour)
	add(t, l, "b", "s", "1", false) // sweeps
	if !isEnded(t, l, "a") {
		t.Error("after a day: it is forgotten, want ended")
	}
	now = now.Add(time.Hour)
	add(t, l, "b", "s", "2", false)
	if isEnded(t, l, "a") {
		t.Error("after more than a day: it is ended, want forgotten")
	}
}

func TestMemoryBoundsEnds(t *testing.T) {
	l := eventlog.NewMemory(eventlog.MemoryConfig{})
	for n := range 10_002 {
		l.End(of(strconv.Itoa(n)))
	}
	for n, want := range []bool{false, false, true} {
		if got := isEnded(t, l, strconv.Itoa(n)); got != want {
			t.Errorf("session %d: got %v, want only the two oldest forgotten", n, got)
		}
	}
}
