package connlimit

import (
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
)

// admitPipe lets another connection in, nil if there is no slot for it.
func admitPipe(t *testing.T, l *Limiter) *conn {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() {
		_ = here.Close() // a pipe does not fail
		_ = there.Close()
	})
	return l.admit(here)
}

// TestOneWhoHasJustBecomeKnownStays: a connection is known, and a request of somebody
// known in work on it, before it has left the queue of unauthenticated ones. A newcomer
// that comes right then must not take its slot.
func TestOneWhoHasJustBecomeKnownStays(t *testing.T) {
	t.Parallel()
	l := New(Config{Total: 1, Address: 2})
	admit := func() *conn { return admitPipe(t, l) }
	first := admit()
	first.busy.Store(true)
	first.unauthenticated.Store(false) // as mark does before it has the mutex
	if newcomer := admit(); newcomer != nil || first.left {
		t.Errorf("the newcomer has a slot: %t, the connection in use has lost its own: %t, want neither",
			newcomer != nil, first.left)
	}
}

// TestUnusedConnectionsAreThoseWithoutARequest follows connections of somebody known and
// unauthenticated ones.
func TestUnusedConnectionsAreThoseWithoutARequest(t *testing.T) {
	t.Parallel()
	l := New(Config{Total: 3})
	known, unauthenticated, taken := admitPipe(t, l), admitPipe(t, l), admitPipe(t, l)
	want := func(what string, n int) {
		t.Helper()
		if got := l.Unused(); got != n {
			t.Errorf("%s: got %d unused, want %d", what, got, n)
		}
	}
	want("new", 3)
	for _, c := range []*conn{known, unauthenticated, taken} {
		c.changed(http.StateActive)
	}
	known.mark(false)
	taken.mark(false)
	taken.changed(http.StateHijacked)
	want("in work", 0)
	known.changed(http.StateIdle)
	unauthenticated.changed(http.StateIdle)
	want("idle", 2)
	_ = unauthenticated.Close() // a pipe does not fail
	want("closed", 1)
	known.changed(http.StateActive)
	want("in work again", 0)
}

// TestTakenOverConnectionStaysCounted: when a connection was taken over from the HTTP
// server, it is counted and gives way to nobody, until whoever has it closes it. That
// gives back one slot.
func TestTakenOverConnectionStaysCounted(t *testing.T) {
	t.Parallel()
	l := New(Config{Total: 2, Address: 2})
	admit := func() *conn { return admitPipe(t, l) }
	taken := admit()
	taken.changed(http.StateActive)
	taken.mark(false)
	taken.changed(http.StateHijacked)
	unauthenticated := admit()
	if newcomer := admit(); newcomer == nil || taken.left || !unauthenticated.left {
		t.Errorf(
			"the newcomer has a slot: %t, the connection taken over has lost its own: %t, the unauthenticated one: "+
				"%t; want only the last to lose it",
			newcomer != nil, taken.left, unauthenticated.left)
	}
	_ = taken.Close() // a pipe does not fail
	_ = taken.Close()
	if open := l.Open(); open != 1 {
		t.Errorf("%d connections are open, want 1", open)
	}
}

// TestDescriptorIsThatOfWhatWasAccepted: what has none says so, and what cannot be closed
// half says so, too.
func TestDescriptorIsThatOfWhatWasAccepted(t *testing.T) {
	t.Parallel()
	l := New(Config{Total: 2})
	here, there := net.Pipe()
	piped := l.admit(here)
	defer func() { _ = errors.Join(piped.Close(), there.Close()) }() // a pipe does not fail
	if _, err := piped.SyscallConn(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a pipe: got error %v, want ErrUnsupported", err)
	}
	if err := piped.CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a pipe: got error %v, want ErrUnsupported", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // nothing can be lost
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }() // nothing can be lost
	accepted, err := l.Listener(listener).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = accepted.Close() }() // nothing can be lost
	c := accepted.(*conn)
	if _, err := c.SyscallConn(); err != nil {
		t.Error(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Error(err)
	}
	if n, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || l.Open() != 2 {
		t.Errorf("got %d bytes and error %v, and %d connections; want the end, and both", n, err, l.Open())
	}
}
