package directory

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// TestWhatWasNotedLastIsRemembered notes something of more sessions than are remembered.
func TestWhatWasNotedLastIsRemembered(t *testing.T) {
	t.Parallel()
	const half, more = 100, 7
	r := recent[string]{half: half}
	key := func(i int) ticket.Key { return ticket.Key{byte(i), byte(i >> 8)} }
	if got := r.of(key(0)); got != "" {
		t.Errorf("before anything was noted: got %q", got)
	}
	for i := range 3*half + more {
		r.set(key(i), "a")
		if n := len(r.now) + len(r.before); n > 2*half {
			t.Fatalf("%d are remembered, want at most %d", n, 2*half)
		}
	}
	for i, want := range map[int]string{
		0: "", 2*half - 1: "", 2*half + more: "a", 2*half + more + 1: "a", 3*half + more - 1: "a",
	} {
		if got := r.of(key(i)); got != want {
			t.Errorf("session %d: got %q, want %q", i, got, want)
		}
	}
	for _, i := range []int{2*half + more, 3*half + more - 1} {
		for _, want := range []string{"b", ""} {
			if r.set(key(i), want); r.of(key(i)) != want {
				t.Errorf("session %d after another word: got %q, want %q", i, r.of(key(i)), want)
			}
		}
	}
}
