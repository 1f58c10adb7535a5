package directory

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// TestHintsAreKeptWithinTheirBound notes where sessions are, more than there may be
// hints.
func TestHintsAreKeptWithinTheirBound(t *testing.T) {
	t.Parallel()
	var h hints
	key := ticket.NewKey()
	if at := h.of(key); at != "" {
		t.Errorf("before anything was noted: got %q", at)
	}
	for range maxHints {
		h.set(ticket.NewKey(), "a")
	}
	h.set(key, "b")
	if at := h.of(key); at != "b" || len(h.known) != maxHints {
		t.Errorf("got %q, and %d hints, want b among %d", at, len(h.known), maxHints)
	}
	h.set(key, "c")
	if at := h.of(key); at != "c" {
		t.Errorf("after another word: got %q, want c", at)
	}
	h.set(key, "")
	if at := h.of(key); at != "" {
		t.Errorf("after nobody knows: got %q", at)
	}
}
