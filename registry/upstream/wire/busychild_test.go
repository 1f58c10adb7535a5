package wire

import (
	"bufio"
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// newBusyChild returns a child that is only written to, and the end of the pipe from
// which it reads.
func newBusyChild() (k *Child, theirs net.Conn) {
	theirs, ours := net.Pipe()
	k = &Child{
		duplex: newDuplex(&eventRecorder{}, reader{}, Memory{}), stdin: ours,
		queue: make(chan []byte), background: make(chan []byte, tellMax),
	}
	go k.write()
	return k, theirs
}

// TestBusyChildIsWaitedFor writes to a child that reads one message and then no more for
// five minutes, as one that does one thing at a time. From outside that takes as long as
// it says; here time is exact. That a child which reads nothing any more is replaced is
// TestAChildThatHangsIsStartedAnew's to show.
func TestBusyChildIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, theirs := newBusyChild()
		for range 2 {
			if err := k.Send(t.Context(), []byte("{}")); err != nil {
				t.Fatal(err)
			}
			if _, err := theirs.Read(make([]byte, len("{}\n"))); err != nil {
				t.Fatalf("%v: %v", err, k.Loss())
			}
			if err := k.Send(t.Context(), []byte("{}")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
			if _, err := theirs.Read(make([]byte, len("{}\n"))); err != nil {
				t.Fatalf("%v: %v", err, k.Loss())
			}
		}
		k.lost(ErrGone)
		_ = k.stdin.Close()
		_ = theirs.Close()
	})
}

// TestWhatNobodyWaitsForIsNotWritten has callers leave while a child does not read: what
// they wanted is neither kept nor written.
func TestWhatNobodyWaitsForIsNotWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, theirs := newBusyChild()
		ctx, leave := context.WithCancel(t.Context())
		for _, ask := range []string{"first", "left", "left"} {
			go func() { _ = k.Send(ctx, []byte(ask)) }() // as far as the child takes it
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		k.Tell(t.Context(), []byte("told"))
		go func() { _ = k.Send(t.Context(), []byte("stays")) }()
		in := bufio.NewReader(theirs)
		got := map[string]bool{}
		for range 3 {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			got[line] = true
		}
		if !got["first\n"] || !got["told\n"] || !got["stays\n"] {
			t.Errorf("the child got %v, want what it had begun to read, what is told and who stays", got)
		}
		k.lost(ErrGone)
		_ = k.stdin.Close()
		_ = theirs.Close()
	})
}
