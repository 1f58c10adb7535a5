package sessions

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// TestOldestEndsAreForgotten has more sessions end than are remembered.
func TestOldestEndsAreForgotten(t *testing.T) {
	const more = 3
	d := NewEnded()
	for i := range maxEnded + more {
		d.Add(keyOf(i), EndIdle)
	}
	for i, want := range map[int]string{
		0: lostForgotten, more - 1: lostForgotten, more: EndIdle, maxEnded: EndIdle, maxEnded + more - 1: EndIdle,
	} {
		if got := d.Why(keyOf(i)); got != want {
			t.Errorf("end %d: got %s, want %s", i, got, want)
		}
	}
}

func keyOf(i int) ticket.Key { return ticket.Key{byte(i), byte(i >> 8)} }
