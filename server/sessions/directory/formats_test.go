package directory

import (
	"bytes"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/seal/sealtest"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// keptTicket is what testdata/formats/session-4 says.
func keptTicket() ticket.Ticket {
	t := ticket.Ticket{Opened: time.Unix(1764000000, 0), Revision: "2025-11-25", Capabilities: 0b0001_0011}
	copy(t.Opener[:], "a repli.")
	copy(t.Key[:], "the key of 16 by")
	copy(t.Owner[:], "the digest of an owner, 32 bytes")
	return t
}

// TestKeptSessionIDsAreRead opens an id that an earlier build has made. If it fails, a
// rollout ends all sessions.
func TestKeptSessionIDsAreRead(t *testing.T) {
	t.Parallel()
	ring, want := sealtest.Ring(t), keptTicket()
	made, err := ring.Seal(ticket.Session, want.Encode())
	if err != nil {
		t.Fatal(err)
	}
	kept := string(sealtest.Stored(t, "session-4", []byte(made)))
	d := &Directory{config: Config{Seal: ring}}
	if got, ok := d.openTicket(ticket.Session, kept); !ok || got != want {
		t.Errorf("got %+v, %v, want %+v", got, ok, want)
	}
	if _, ok := d.openTicket(ticket.SSE, kept); ok {
		t.Error("an id of one transport passes for one of the other")
	}
	if plain, err := ring.Open(ticket.Session, kept); err != nil || !bytes.Equal(plain, want.Encode()) {
		t.Errorf("kept is %x, %v, and this version writes %x: what a version before reads has changed", plain,
			err, want.Encode())
	}
}

// TestATicketOfALaterVersion reads one with an addition, and one of another layout.
func TestATicketOfALaterVersion(t *testing.T) {
	t.Parallel()
	want := keptTicket()
	if got, ok := ticket.Decode(append(want.Encode(), "more"...)); !ok || got != want {
		t.Errorf("with an addition: got %+v, %v, want %+v", got, ok, want)
	}
	other := want.Encode()
	other[0]++
	if got, ok := ticket.Decode(other); ok {
		t.Errorf("of another layout: got %+v, want that it is not read", got)
	}
	if got, ok := ticket.Decode(want.Encode()[:ticket.Size-1]); ok {
		t.Errorf("cut: got %+v", got)
	}
}
