package server_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// slowBody is a call that runs until the test lets it go, or its session ends.
const slowBody = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"slow"}}`

// TestAMessageThatWasRefusedRanLater sends a call by way of another replica to one that takes no word for a while. The
// client is told to try again, so the call must not begin after that.
func TestAMessageThatWasRefusedRanLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, func(w *world) {
			w.config.Others.Handle("stop 1", func(context.Context, replica.ID, replica.Word) { <-time.After(3 * time.Second) })
		})
		stream, address := a.openSSE(t, "alice")
		if err := b.config.Others.Send(t.Context(), a.config.Others.Self(), replica.Word{Kind: "stop 1"}); err != nil {
			t.Fatal(err)
		}
		wantReplicas(t, "to a replica that takes no word", b.do(t, posted(address, slowBody)))
		<-time.After(5 * time.Second)
		if started, _ := a.counts(); started != 0 {
			t.Errorf("the client was refused, and %d calls run", started)
		}
		wantStatus(t, "again", b.do(t, posted(address, slowBody)), http.StatusAccepted)
		synctest.Wait()
		a.letGo()
		wait(t)
		if started, _ := a.counts(); started != 1 || strings.Count(stream.text(), `"id":7`) != 1 {
			t.Errorf("again: got %d calls, want one, and its answer once", started)
		}
	})
}

// slowVerdicts are others to whom a verdict takes a while.
type slowVerdicts struct {
	replica.Others
	takes time.Duration
}

func (s *slowVerdicts) Send(ctx context.Context, to replica.ID, w replica.Word) error {
	if w.Kind == "verdict 1" {
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Others.Send(ctx, to, w)
}

// TestAVerdictWasGivenUpBeforeItsTime has the home begin a call shortly before it is too late for that, and the verdict
// arrive after it, while the other replica still waits. The client hears that the call was taken.
func TestAVerdictWasGivenUpBeforeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t, func(w *world) {
			w.config.Others.Handle("stop 1", func(context.Context, replica.ID, replica.Word) { <-time.After(1250 * time.Millisecond) })
			w.config.Others = &slowVerdicts{w.config.Others, 300 * time.Millisecond}
		})
		_, address := a.openSSE(t, "alice")
		if err := b.config.Others.Send(t.Context(), a.config.Others.Self(), replica.Word{Kind: "stop 1"}); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, "a verdict that comes in time", b.do(t, posted(address, slowBody)), http.StatusAccepted)
		a.letGo()
		wait(t)
		if started, _ := a.counts(); started != 1 {
			t.Errorf("got %d calls, want 1", started)
		}
	})
}

// TestACopyOfAMessageRan loses the verdict about a call, so that the client is told to try again although it runs. The
// same message does not run twice, wherever it comes and whether or not it was answered by then. What only has its id does.
func TestACopyOfAMessageRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Bool
		a, b := pair(t, func(w *world) {
			w.config.Others = &faultyOthers{w.config.Others, func(w replica.Word) error {
				if lost.Load() && w.Kind == "verdict 1" {
					return errLost
				}
				return nil
			}}
		})
		stream, address := a.openSSE(t, "alice")
		lost.Store(true)
		wantReplicas(t, "without a verdict", b.do(t, posted(address, slowBody)))
		lost.Store(false)
		for _, w := range []*world{a, b} {
			wantStatus(t, "while it runs", w.do(t, posted(address, slowBody)), http.StatusAccepted)
			wait(t)
		}
		a.letGo()
		wait(t)
		if text := stream.text(); strings.Count(text, `"id":7`) != 1 {
			t.Errorf("got %q, want its answer once", text)
		}
		for _, w := range []*world{a, b} {
			wantStatus(t, "after its answer", w.do(t, posted(address, slowBody)), http.StatusAccepted)
			wait(t)
		}
		if started, _ := a.counts(); started != 1 {
			t.Errorf("got %d calls, want 1", started)
		}
		for n, w := range []*world{a, b} {
			other := strings.Replace(slowBody, `"slow"`, `"slow","arguments":{"n":`+string(rune('0'+n))+`}`, 1)
			wantStatus(t, "another message of that id", w.do(t, posted(address, other)), http.StatusAccepted)
			wait(t)
			a.letGo()
			wait(t)
			if got := strings.Count(stream.text(), `"id":7`); got != 1 {
				t.Errorf("another message of that id: got %d answers, want 1", got)
			}
		}
		<-time.After(2 * time.Minute)
		wantStatus(t, "much later", b.do(t, posted(address, slowBody)), http.StatusAccepted)
		wait(t)
		if started, _ := a.counts(); started != 4 {
			t.Errorf("much later: got %d calls, want 4", started)
		}
	})
}

// TestARefusedMessageCountedAsTaken lets a message be refused by the replica with the stream: it may come again.
func TestARefusedMessageCountedAsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		stream, address := a.openSSE(t, "alice")
		a.do(t, posted(address, strings.Replace(slowBody, "slow", "slow_progress", 1)))
		wait(t)
		wantStatus(t, "while its id is in use", b.do(t, posted(address, slowBody)), http.StatusBadRequest)
		a.letGo()
		wait(t)
		stream.text()
		wantStatus(t, "after that", b.do(t, posted(address, slowBody)), http.StatusAccepted)
		wait(t)
		a.letGo()
		wait(t)
		if got := strings.Count(stream.text(), `"id":7`); got != 1 {
			t.Errorf("got %d answers, want 1", got)
		}
	})
}
