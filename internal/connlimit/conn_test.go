package connlimit

import (
	"net"
	"testing"
)

// TestOneWhoHadJustBecomeKnownWasClosed: a connection is known, and a request of somebody known in work on it, before it
// has left the queue of strangers. A newcomer that comes right then must not take its place.
func TestOneWhoHadJustBecomeKnownWasClosed(t *testing.T) {
	t.Parallel()
	l := New(Config{Total: 1, Address: 2})
	admit := func() *conn {
		here, there := net.Pipe()
		t.Cleanup(func() {
			_ = here.Close() // a pipe does not fail
			_ = there.Close()
		})
		return l.admit(here)
	}
	first := admit()
	first.busy.Store(true)
	first.stranger.Store(false) // as mark does before it has the mutex
	if newcomer := admit(); newcomer != nil || first.left {
		t.Errorf("the newcomer has a place: %t, the connection in use has lost its own: %t, want neither", newcomer != nil, first.left)
	}
}
