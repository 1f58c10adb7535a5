package builtin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/builtin"
)

// busyTurns returns a queue whose one slot another tenant holds until leave is called.
func busyTurns(t *testing.T) (turns *fairqueue.Queue, leave func()) {
	t.Helper()
	turns = fairqueue.New(1)
	leave, err := turns.Enter(t.Context(), share.User{TenantID: "loud"}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return turns, leave
}

// TestLargeFilesAreReadInTurns keeps the one slot busy: who has a large file analyzed
// waits for it, and gives it back between two pieces. A small file does not wait.
func TestLargeFilesAreReadInTurns(t *testing.T) {
	t.Parallel()
	_, dir := withFiles(t, map[string]string{
		"small.csv": "a,b\n1,2\n", "large.csv": "a,b\n" + strings.Repeat("12345,67890\n", 100_000),
	})
	for path, waits := range map[string]bool{"small.csv": false, "large.csv": true} {
		synctest.Test(t, func(t *testing.T) {
			turns, leave := busyTurns(t)
			offer := open(t, builtin.Config{CSVRoot: dir, Turns: turns}, "analyze_csv")
			answered := false
			go func() {
				call(t, offer, `{"path":"`+path+`"}`)
				answered = true
			}()
			synctest.Wait()
			if answered == waits {
				t.Errorf("%s, while the slot is held: answered is %t", path, answered)
			}
			between := make(chan bool, 1)
			go func() { // whoever stands in line behind it
				give, err := turns.Enter(t.Context(), share.User{TenantID: "next"}, time.Millisecond)
				if err != nil {
					t.Error(err)
					return
				}
				between <- !answered
				give()
			}()
			synctest.Wait()
			leave()
			if got := <-between; got != waits {
				t.Errorf("%s: the next one comes between two pieces: %t", path, got)
			}
			synctest.Wait()
			if !answered || turns.Busy() != 0 {
				t.Errorf("%s, afterwards: answered is %t, and %d slots are held", path, answered, turns.Busy())
			}
		})
	}
}

// TestACallThatWaitsForItsTurnEnds with its context, and takes no slot along.
func TestACallThatWaitsForItsTurnEnds(t *testing.T) {
	t.Parallel()
	_, dir := withFiles(t, map[string]string{"large.csv": "a\n" + strings.Repeat("12345\n", 100_000)})
	synctest.Test(t, func(t *testing.T) {
		turns, leave := busyTurns(t)
		offer := open(t, builtin.Config{CSVRoot: dir, Turns: turns}, "analyze_csv")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tryCall(ctx, t, offer, `{"path":"large.csv"}`); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want that of the context", err)
		}
		leave()
		if turns.Busy() != 0 || len(turns.Waiting()) != 0 {
			t.Errorf("%d slots are held, and %v wait", turns.Busy(), turns.Waiting())
		}
	})
}
