package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// oneSlot lets one piece of work be done at a time that takes long.
func oneSlot(w *world) { w.config.Turns = fairqueue.New(1) }

// occupied takes the only slot until it is given back.
func occupied(t *testing.T, w *world) (free func()) {
	t.Helper()
	free, err := w.config.Turns.Enter(t.Context(), share.User{TenantID: "another"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// TestManyLargeCallsOfOneTenantDelayNoOther lets 24 large calls of one tenant wait. A
// small call of another is answered meanwhile, and a large one comes among the first when
// it goes on. What is counted is the order, not the time.
func TestManyLargeCallsOfOneTenantDelayNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h, free := w.Handler(), occupied(t, w)
		var mu sync.Mutex
		var order []string
		start := func(token string) {
			go func() {
				if got := record(h, large("echo", token, 100_000).request(t.Context(),
					"")); got.Code != http.StatusOK {
					t.Errorf("%s: got %d %s", token, got.Code, got.Body)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, token)
			}()
			synctest.Wait()
		}
		for range 24 {
			start("alice")
		}
		if waiting := w.config.Turns.Waiting(); waiting["acme"] != 24 {
			t.Fatalf("got %v waiting, want 24 of acme", waiting)
		}
		small := modernCall("echo")
		small.token = "alice-globex"
		if got := record(h, small.request(t.Context(), "")); got.Code != http.StatusOK {
			t.Errorf("a small call beside them: got %d %s", got.Code, got.Body)
		}
		start("alice-globex")
		free()
		synctest.Wait()
		// Who has been answered says so on a goroutine of its own, so a few may be noted
		// before one that was answered first.
		if at := slices.Index(order, "alice-globex"); len(order) != 25 || at > 6 {
			t.Errorf("the quiet tenant was served as number %d of %d: %v", at, len(order), order)
		}
	}, oneSlot)
}

// TestTooManyLargeCallsAreRefused: whoever lets more large requests wait than it may is
// told so, and all is given back.
func TestTooManyLargeCallsAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		h, free := w.Handler(), occupied(t, w)
		var got *httptest.ResponseRecorder
		for n := 0; got == nil && n < 300; n++ {
			done := make(chan *httptest.ResponseRecorder, 1)
			go func() { done <- record(h, large("echo", "alice", 100_000).request(t.Context(), "")) }()
			synctest.Wait()
			select {
			case got = <-done:
			default: // it waits
			}
		}
		if got == nil || got.Code != http.StatusTooManyRequests || stable(t, got.Body) != "DB-LIMIT-WORK" ||
			got.Header().Get("Retry-After") != "1" {
			t.Errorf("got %v, want 429 DB-LIMIT-WORK", got)
		}
		free()
		synctest.Wait()
		if waiting := w.config.Turns.Waiting(); len(waiting) != 0 || w.config.Turns.Busy() != 0 {
			t.Errorf("at the end %v wait and %d slots are in use", waiting, w.config.Turns.Busy())
		}
	}, oneSlot, busy)
}

// TestALargeRequestThatWaitsForLongIsRefused: nobody waits for ever behind work that does
// not end.
func TestALargeRequestThatWaitsForLongIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		defer occupied(t, w)()
		got := record(w.Handler(), large("echo", "alice", 100_000).request(t.Context(), ""))
		if got.Code != http.StatusServiceUnavailable || stable(t, got.Body) != "DB-OVERLOAD-WORK" {
			t.Errorf("got %d %s, want 503 DB-OVERLOAD-WORK", got.Code, got.Body)
		}
	}, oneSlot)
}

// TestLargeAnswersAreWrittenInTurn keeps the one slot busy: a large answer waits to be
// encoded, which keeps a processor while megabytes are copied, and a small one does not.
func TestLargeAnswersAreWrittenInTurn(t *testing.T) {
	for _, size := range []int{100, 1 << 20} {
		for _, era := range []string{"modern", "legacy"} {
			bubble(t, func(t *testing.T, w *world) {
				w.behind(&fakeDesk{handle: func(context.Context, gateway.Caller,
					*gateway.Request,
				) (mcp.Object, error) {
					return textResult(strings.Repeat("x", size)).With("resultType", mcp.String("complete")),
						nil
				}})
				h, m := w.Handler(), modernCall("echo")
				if era == "legacy" {
					m = legacyCall(w.open(t, "alice", mcp.Revision2511), "echo")
				}
				free := occupied(t, w)
				answered := false
				go func() {
					if got := record(h, m.request(t.Context(), "")); got.Code != http.StatusOK ||
						got.Body.Len() < size {
						t.Errorf("%s, %d bytes: got %d and %d bytes", era, size, got.Code, got.Body.Len())
					}
					answered = true
				}()
				synctest.Wait()
				if small := size < 1000; answered != small {
					t.Errorf("%s, %d bytes, while the slot is held: answered is %t", era, size, answered)
				}
				free()
				synctest.Wait()
				if !answered || w.config.Turns.Busy() != 0 {
					t.Errorf("%s, %d bytes, afterwards: answered is %t, and %d slots are held", era, size,
						answered, w.config.Turns.Busy())
				}
			}, oneSlot)
		}
	}
}
