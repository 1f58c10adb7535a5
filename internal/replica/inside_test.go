package replica

import (
	"context"
	"encoding/binary"
	"log/slog"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/seal"
)

// TestWordThatWasKeptBackWasHandled: who could write to Redis and read it took word out of a mailbox, and put it there for
// the first time when it pleased. Such word counts as lost, and is not handled.
func TestWordThatWasKeptBackWasHandled(t *testing.T) {
	t.Parallel()
	ring := seal.RandomRing()
	for _, test := range []struct {
		age     time.Duration
		handled bool
	}{
		{0, true}, {wordLife / 2, true}, {-wordLife / 2, true}, {2 * wordLife, false}, {-2 * wordLife, false}, {1e6 * time.Hour, false},
	} {
		m := NewMail(MailConfig{Seal: ring, Logger: slog.New(slog.DiscardHandler)})
		handled, now := false, time.Now()
		m.clock.Store(&clock{1e13, now, now})
		m.Handle("news 1", func(context.Context, ID, Word) { handled = true })
		plain := binary.BigEndian.AppendUint64(nil, 1)
		plain = binary.BigEndian.AppendUint64(plain, uint64(1e13-test.age.Milliseconds()))
		fields := map[string]string{"k": "news 1", "f": "a", "d": string(ring.SealBytes(purpose(m.id, "a", "news 1", "", ""), plain))}
		m.take(t.Context(), fields)
		if handled != test.handled || m.missed.Load() == test.handled {
			t.Errorf("age %v: handled %v, missed %v, want %v and %v", test.age, handled, m.missed.Load(), test.handled, !test.handled)
		}
	}
}

// TestNowIsThatOfTheServer: claims of replicas are ordered by it, and the clock of one of their machines may be wrong.
func TestNowIsThatOfTheServer(t *testing.T) {
	t.Parallel()
	m := NewMail(MailConfig{Seal: seal.RandomRing(), Logger: slog.New(slog.DiscardHandler)})
	if off := time.Since(m.Now()).Abs(); off > time.Hour {
		t.Errorf("not asked yet: the clock is off by %v", off)
	}
	there := time.Now().Add(-1000 * time.Hour)
	m.clock.Store(&clock{there.UnixMilli(), time.Now(), time.Now()})
	if off := m.Now().Sub(there); off < -time.Second || off > time.Hour {
		t.Errorf("asked: it is off by %v", off)
	}
}

// TestReplaysKnowWhatHasCome shows which numbers count as new when word overtakes other word, and a sender dies.
func TestReplaysKnowWhatHasCome(t *testing.T) {
	t.Parallel()
	const a, b ID = "a", "b"
	r := newReplays()
	gone := func(ID) bool { return false }
	for i, step := range []struct {
		from   ID
		number uint64
		isNew  bool
	}{
		{a, 500, true},
		{a, 500, false},
		{a, 499, true}, // overtaken by the first
		{a, 501, true},
		{a, 70_000, true},
		{a, 69_999, true}, // overtaken
		{a, 69_999, false},
		{a, 502, false}, // too late
		{a, 5000, true},
		{a, 501, false},
		{a, 70_000 + overtake - 1, true},
		{a, 70_000, false},
		{a, 69_999, false}, // too late
		{a, 10_000_000, true},
		{a, 9_999_999, true},
		{a, 10_000_000, false},
		{b, 1, true}, // now a is forgotten but for its newest number
		{a, 9_999_998, false},
		{a, 10_000_002, true},
		{a, 10_000_001, true},
		{a, 9_999_998, false},
		{b, 1, false},
	} {
		if got := r.isNew(step.from, step.number, gone); got != step.isNew {
			t.Errorf("step %d: number %d of %s: got %v", i, step.number, step.from, got)
		}
	}
}
