package redis

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
)

// TestCallReturnsThoughLibraryDoesNot has a library that hangs, as it may while it dials
// or its queue is full. It is inside the package because no server can be told to make
// the library do so.
func TestCallReturnsThoughLibraryDoesNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Addresses: []string{"127.0.0.1:1"}})
		s.link.Store(&link{life: t.Context()})
		s.breaker.prove()
		hang := make(chan struct{})
		defer close(hang)
		library := func(context.Context, rueidis.Client, bool) error { <-hang; return nil }
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer stop()
		for _, test := range []struct {
			ctx  context.Context //nolint:containedctx // a case of the table
			want error
			took time.Duration
		}{
			{ctx, context.DeadlineExceeded, 30 * time.Millisecond},
			{ctx, context.DeadlineExceeded, 0},
			{t.Context(), errLate, defaultPatience},
		} {
			began := time.Now()
			if _, err := s.askSized(test.ctx, "test", 0, library); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if took := time.Since(began); took != test.took {
				t.Errorf("it took %v, want %v", took, test.took)
			}
		}
	})
}

// TestCallsOfNoTenantAreCountedForNone is inside the package because only a tenant that
// does much at once would show it.
func TestCallsOfNoTenantAreCountedForNone(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		Key("acme", "once", "a}:b"): "acme", Key("", "word", "a"): "", CommonKey("pulse", "{01}", "a"): "",
	} {
		if got := tenantOf(key); got != want {
			t.Errorf("%s: got tenant %q, want %q", key, got, want)
		}
	}
}

// TestBreakerThatOpensAgainNeedsMoreProofs is inside the package because servers that are
// well every other second cannot be made exactly.
func TestBreakerThatOpensAgainNeedsMoreProofs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b breaker
		proofs := func() (n int) {
			for n = 1; !b.prove(); n++ {
			}
			return n
		}
		if got := proofs(); got != 1 {
			t.Errorf("at the start: %d proofs", got)
		}
		time.Sleep(relapse)
		for _, want := range []int{1, 2, 4, 8, 16, 32, 32} {
			if !b.open(errLate) || b.open(errLate) {
				t.Error("it did not open once")
			}
			if got := proofs(); got != want {
				t.Errorf("got %d proofs, want %d", got, want)
			}
		}
		time.Sleep(relapse)
		b.open(errLate)
		if got := proofs(); got != 1 {
			t.Errorf("after a while: %d proofs", got)
		}
	})
}

// TestForgotten shows what a pulse that is found again says. It is inside the package
// because a minute's loss takes one.
func TestForgotten(t *testing.T) {
	t.Parallel()
	hour := memory{last: time.Hour}
	at := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	for text, want := range map[string]bool{
		at(time.Hour):                  false,
		at(time.Hour + time.Second):    false, // was written, and not confirmed
		at(time.Hour - mostLoss):       false,
		at(time.Hour - mostLoss - 1e6): true, // an old copy
		"":                             true,
		"junk":                         true,
		"-1":                           true,
	} {
		if got := hour.forgotten(text, nil); got != want {
			t.Errorf("%q: got %v", text, got)
		}
		if first := (&memory{}); first.forgotten(text, nil) {
			t.Errorf("%q: a replica that has written nothing misses it", text)
		}
	}
	if !hour.forgotten("", errors.New("another type")) {
		t.Error("a value of another type is taken for a pulse")
	}
}

// TestAFailoverSoonAfterTheStartIsNoLoss: a replica that has just begun has no pulse that
// is old enough to be in what a failover leaves. It is inside the package because nothing
// outside it knows how old a replica is.
func TestAFailoverSoonAfterTheStartIsNoLoss(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		last    time.Duration
		pulse   string
		cluster bool
		want    bool
	}{
		{2 * time.Second, "", false, false},
		{2 * time.Second, "", true, true},
		{2 * time.Second, "junk", false, true},
		{time.Second + mostLoss, "", false, false},
		{time.Second + mostLoss + time.Millisecond, "", false, true},
	} {
		m := newMemory(test.cluster)
		m.first, m.last = time.Second, test.last
		if got := m.forgotten(test.pulse, nil); got != test.want {
			t.Errorf("%q after %v, cluster %v: got %v, want %v", test.pulse, test.last, test.cluster, got,
				test.want)
		}
	}
}

// TestPulsesAreAtEveryNode looks how many slots in a row have no pulse. It is inside the
// package because nothing outside it knows their keys.
func TestPulsesAreAtEveryNode(t *testing.T) {
	t.Parallel()
	slots := []int{-1, 16384}
	for _, key := range newMemory(true).pulseKeys {
		_, tag, _ := strings.Cut(key, "{")
		tag, _, _ = strings.Cut(tag, "}")
		slots = append(slots, slotOf(tag))
	}
	slices.Sort(slots)
	for i, n := range slots[1:] {
		if gap := n - slots[i] - 1; gap >= pulseGap {
			t.Errorf("%d slots in a row have no pulse, want fewer than %d", gap, pulseGap)
		}
	}
}

// TestLateCallHasAProbeMade shows that a call without an answer in time does not stop the
// others: a probe decides.
func TestLateCallHasAProbeMade(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	s.breaker.prove()
	if err := s.failed(t.Context(), errLate); !errors.Is(err, ErrDown) || s.Up() != nil {
		t.Errorf("the call got %v, and the others %v", err, s.Up())
	}
	select {
	case <-s.wake:
	default:
		t.Error("no probe is made")
	}
	if _ = s.failed(t.Context(), io.EOF); s.Up() == nil {
		t.Error("a connection that ended did not stop the others")
	}
}

// TestACallThatEndsWithItsLinkKeepsTheReason: a server that answers late is given up with
// its link, and with that the calls that wait in it. It stays slow for that; these calls
// made it one that cannot be reached.
func TestACallThatEndsWithItsLinkKeepsTheReason(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	s.breaker.prove()
	s.trip(explain(errLate))
	if err := s.failed(t.Context(), context.Canceled); !errors.Is(err, ErrDown) || s.State() != StateSlow {
		t.Errorf("the call got %v, and the server is %s, want it slow", err, s.State())
	}
}

// slotOf returns the slot of a cluster that a tag stands for: its CRC16, as the
// specification of clusters says.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model
func slotOf(tag string) int {
	sum := uint16(0)
	for _, c := range []byte(tag) {
		sum ^= uint16(c) << 8
		for range 8 {
			carry := sum&0x8000 != 0
			if sum <<= 1; carry {
				sum ^= 0x1021
			}
		}
	}
	return int(sum % 16384)
}
