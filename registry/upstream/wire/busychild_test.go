package wire

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestBusyChildIsWaitedFor writes to a child that reads one message and then no more for
// five minutes, as one that does one thing at a time. From outside that takes as long as
// it says; here time is exact. That a child which reads nothing any more is replaced is
// TestAChildThatHangsIsStartedAnew's to show.
func TestBusyChildIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := net.Pipe()
		k := &Child{
			duplex: newDuplex(&notebook{}, reader{}, Memory{}), stdin: ours,
			queue: make(chan []byte, queueMax),
		}
		go k.write()
		for range 2 {
			if err := k.enqueue(t.Context(), []byte("{}")); err != nil {
				t.Fatal(err)
			}
			if _, err := theirs.Read(make([]byte, len("{}\n"))); err != nil {
				t.Fatalf("%v: %v", err, k.Loss())
			}
			if err := k.enqueue(t.Context(), []byte("{}")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
			if _, err := theirs.Read(make([]byte, len("{}\n"))); err != nil {
				t.Fatalf("%v: %v", err, k.Loss())
			}
		}
		k.lost(ErrGone)
		_ = ours.Close()
		_ = theirs.Close()
	})
}
