package wire

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestDeafChildIsLost writes to a child that reads one message and then no more. From
// outside that takes as long as it says; here time is exact. That a lost child is
// replaced is TestKilledChildComesBack's to show.
func TestDeafChildIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := net.Pipe()
		defer theirs.Close()
		k := &Child{
			duplex: newDuplex(&notebook{}, reader{}, Memory{}), stdin: ours,
			queue: make(chan []byte, queueMax),
		}
		go k.write()
		for range 2 {
			if err := k.enqueue(t.Context(), []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := theirs.Read(make([]byte, len("{}\n"))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(writeLimit - time.Nanosecond)
		synctest.Wait()
		select {
		case <-k.gone:
			t.Fatalf("lost before %v: %v", writeLimit, k.cause)
		default:
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		select {
		case <-k.gone:
		default:
			t.Fatalf("not lost after %v", writeLimit)
		}
		if !errors.Is(k.cause, os.ErrDeadlineExceeded) {
			t.Errorf("got %v, want %v", k.cause, os.ErrDeadlineExceeded)
		}
		if err := k.enqueue(t.Context(), []byte("{}")); err == nil {
			t.Error("a message to a lost child was taken")
		}
	})
}
