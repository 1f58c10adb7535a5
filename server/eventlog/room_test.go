package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
)

// sessionOf names a session of a user, who may have several.
func sessionOf(tenant, user string, n int) eventlog.Key {
	return eventlog.Key{
		Name:  fmt.Sprint(tenant, "/", user, "/", n),
		Owner: share.User{TenantID: tenant, Subject: user},
	}
}

// keeps tells whether the first event of a stream is still there.
func keepsFirst(t *testing.T, l eventlog.Log, in eventlog.Key) bool {
	t.Helper()
	_, err := l.Find(t.Context(), in, "p1-1")
	return err == nil
}

// TestOneUserLeavesTheEventsOfOthers keeps one answer of a colleague and one of another
// tenant, and lets a user keep as much as it can.
func TestOneUserLeavesTheEventsOfOthers(t *testing.T) {
	const total = 64 << 20
	memory := share.New(total)
	l := eventlog.NewMemory(eventlog.MemoryConfig{Memory: memory})
	quiet := []eventlog.Key{sessionOf("acme", "bob", 0), sessionOf("globex", "carol", 0)}
	answer := []byte(strings.Repeat("x", 300_000))
	for _, in := range quiet {
		if _, err := l.Append(t.Context(), in, "p1", answer, true); err != nil {
			t.Fatal(err)
		}
	}
	most := int64(0)
	for n := range 300 {
		in := sessionOf("acme", "loud", n)
		if _, err := l.Append(t.Context(), in, "p1", make([]byte, 1<<20), true); err != nil {
			t.Fatalf("event %d: %v", n, err)
		}
		if !keepsFirst(t, l, in) {
			t.Fatalf("event %d was not kept", n)
		}
		most = max(most, memory.InUse())
	}
	for _, in := range quiet {
		if !keepsFirst(t, l, in) {
			t.Errorf("the answer of %s is gone", in.Name)
		}
	}
	if most < total/16 || most > total/4 {
		t.Errorf("one user held %d bytes of %d at most, want a good part of the half that is for events",
			most, total)
	}
	for n := range 300 {
		l.End(sessionOf("acme", "loud", n))
	}
	for _, in := range quiet {
		l.End(in)
	}
	if held := memory.InUse(); held != 0 {
		t.Errorf("%d bytes are held when all sessions have ended, want none", held)
	}
}

// TestEventsOfTheQuietStay lets many users append in random order, some much and some
// little. Whoever never has more than others loses nothing, and everybody can always
// append.
func TestEventsOfTheQuietStay(t *testing.T) {
	l := eventlog.NewMemory(eventlog.MemoryConfig{Memory: share.New(64 << 20)})
	random := rand.New(rand.NewPCG(3, 4))
	var kept []eventlog.Key
	for n := range 3000 {
		in, size := sessionOf(fmt.Sprint("loud", random.IntN(4)), fmt.Sprint("user", random.IntN(5)), n),
			random.IntN(1<<20)
		switch n % 300 {
		case 0:
			in, size = sessionOf(fmt.Sprint("quiet", n/300%4), "user", n), 30_000
			kept = append(kept, in)
		case 1: // a colleague of those who are loud
			in, size = sessionOf(fmt.Sprint("loud", n/300%4), "colleague", n), 30_000
			kept = append(kept, in)
		}
		if _, err := l.Append(t.Context(), in, "p1", make([]byte, size), true); err != nil {
			t.Fatalf("event %d, %d bytes of %s: %v", n, size, in.Name, err)
		}
	}
	for _, in := range kept {
		if !keepsFirst(t, l, in) {
			t.Errorf("the answer of %s is gone", in.Name)
		}
	}
}

// TestAStreamThatLostItsEventsDoesNotBeginAnew shows that a reader who has read nothing
// yet learns that it has missed something.
func TestAStreamThatLostItsEventsDoesNotBeginAnew(t *testing.T) {
	l := eventlog.NewMemory(eventlog.MemoryConfig{Memory: share.New(8 << 20)})
	in := sessionOf("acme", "alice", 0)
	if _, err := l.Append(t.Context(), in, "p1", []byte("answer"), false); err != nil {
		t.Fatal(err)
	}
	for n := range 100 { // the user needs the room for other answers before it reads this one
		if _, err := l.Append(t.Context(), sessionOf("acme", "alice", n+1), "p1", make([]byte, 100_000),
			true); err != nil {
			t.Fatal(err)
		}
	}
	if events, _, err := l.Read(t.Context(), in, "p1", ""); !errors.Is(err, eventlog.ErrUnknown) {
		t.Errorf("got %d events and %v, want ErrUnknown", len(events), err)
	}
	id, err := l.Append(t.Context(), in, "p1", []byte("later"), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Read(t.Context(), in, "p1", ""); !errors.Is(err, eventlog.ErrUnknown) {
		t.Errorf("with a later event: got %v, want ErrUnknown", err)
	}
	if _, _, err := l.Read(t.Context(), in, "p1", id); err != nil {
		t.Errorf("after the later event: %v", err)
	}
}

// TestReadersLearnThatEventsAreGone shows that a reader is woken when its stream loses
// its events.
func TestReadersLearnThatEventsAreGone(t *testing.T) {
	l := eventlog.NewMemory(eventlog.MemoryConfig{Memory: share.New(8 << 20)})
	in := sessionOf("acme", "alice", 0)
	id, err := l.Append(t.Context(), in, "p1", []byte("first"), false)
	if err != nil {
		t.Fatal(err)
	}
	more := make(wakeup, 1)
	if err := l.Follow(t.Context(), in, more); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Read(t.Context(), in, "p1", id); err != nil {
		t.Fatal(err)
	}
	for n := range 100 {
		if _, err = l.Append(t.Context(), sessionOf("acme", "alice", n+1), "p1", make([]byte, 100_000),
			true); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	select {
	case <-more:
	case <-ctx.Done():
		t.Error("the reader was not woken")
	}
}

func TestAnEventThatFitsNowhereIsRefused(t *testing.T) {
	memory := share.New(8 << 20)
	l := eventlog.NewMemory(eventlog.MemoryConfig{Memory: memory})
	in := sessionOf("acme", "alice", 0)
	if _, err := l.Append(t.Context(), in, "p1", []byte("small"), false); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), in, "p2", make([]byte, 2<<20), true); !errors.Is(err, share.ErrUser) {
		t.Errorf("half of all that is for events: got %v, want ErrUser", err)
	}
	if !keepsFirst(t, l, in) {
		t.Error("for an event that fits nowhere another was dropped")
	}
	other := share.User{TenantID: "acme", Subject: "bob"}
	if err := memory.Take(other, 2<<20); err != nil { // by what are no events
		t.Fatal(err)
	}
	for n := range 40 {
		_, err := l.Append(t.Context(), in, fmt.Sprint("q", n), make([]byte, 100_000), true)
		if err != nil && !errors.Is(err, share.ErrTenant) && !errors.Is(err, share.ErrUser) {
			t.Fatalf("event %d: %v", n, err)
		}
	}
	memory.Give(other, 2<<20)
	l.End(in)
	if held := memory.InUse(); held != 0 {
		t.Errorf("%d bytes are held when the session has ended, want none", held)
	}
}
