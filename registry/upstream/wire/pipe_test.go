package wire

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestBrokenPipeDoesNotHideWhyAChildEnded writes to children that do not read any more:
// one that is about to end is lost for the reason that its end has, and one that lives on
// for the broken pipe.
func TestBrokenPipeDoesNotHideWhyAChildEnded(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			theirs, ours := net.Pipe()
			_ = theirs.Close() // in memory, where that cannot fail
			k := &Child{
				duplex: newDuplex(&eventRecorder{}, reader{}, Memory{}), stdin: ours, queue: make(chan []byte),
				exited: make(chan struct{}),
			}
			go k.write()
			if err := k.Send(t.Context(), []byte("{}")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(endLimit - time.Nanosecond)
			if ends {
				close(k.exited)
				synctest.Wait()
				k.lost(ErrGone) // reap's word
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if k.Loss() == nil {
				t.Fatalf("ends %v: not lost", ends)
			}
			if got := errors.Is(k.Loss(), ErrGone); got != ends {
				t.Errorf("ends %v: lost because %v", ends, k.Loss())
			}
		})
	}
}

// TestAChildThatIsClosedLeavesNoPipeOpen asks the pipes themselves: the garbage collector
// closes some later, and so hides that Close did not.
func TestAChildThatIsClosedLeavesNoPipeOpen(t *testing.T) {
	t.Parallel()
	k, err := Start(t.Context(), Program{
		Command: "cat", Said: &LastLines{}, Ended: func() {}, Logger: slog.New(slog.DiscardHandler),
	}, &eventRecorder{})
	if err != nil {
		t.Fatal(err)
	}
	k.Close(t.Context(), true)
	for n, pipe := range []interface{ Close() error }{k.stdin, k.stdout, k.stderr} {
		if err := pipe.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("closing %d once more: got %v, want that it is closed", n, err)
		}
	}
}
