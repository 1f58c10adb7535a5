package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestLaterRoundThatCannotBeRecordedIsNotRepeated shows that an older client may repeat a
// call of which nothing was done, but learns of no status that repeats one whose first
// round was done.
func TestLaterRoundThatCannotBeRecordedIsNotRepeated(t *testing.T) {
	for done, want := range []struct {
		status int
		stable string
	}{{http.StatusServiceUnavailable, "DB-AUDIT-FULL"}, {http.StatusOK, "DB-AUDIT"}} {
		w := newWorld(t)
		rounds := 0
		w.behind(&fakeDesk{handle: func(context.Context, gateway.Caller, *gateway.Request) (mcp.Object,
			error,
		) {
			if rounds++; rounds <= done {
				return object(`{"resultType":"input_required","requestState":"held"}`), nil
			}
			return mcp.Object{}, mcp.Stable(mcp.CodeUnavailable, "DB-AUDIT-FULL",
				"not made").After(time.Second)
		}})
		got := w.do(t, legacyCall(w.open(t, "alice", mcp.Revision2511), "echo"))
		again := got.Header().Get("Retry-After") != "" || strings.Contains(got.Body.String(), "retryAfterMs")
		if got.Code != want.status || stable(t, got.Body) != want.stable || again != (done == 0) {
			t.Errorf("after %d rounds: got %d %s with headers %v, want %d %s", done, got.Code, got.Body,
				got.Header(), want.status, want.stable)
		}
	}
}

// TestLaterRoundIsTriedAgainWhereItIsRefused has the desk refuse the second round of a call,
// because the limits allow no call at the moment: a few times, and for good. Nothing advises
// an older client to make the call again, of which the first round was done.
func TestLaterRoundIsTriedAgainWhereItIsRefused(t *testing.T) {
	for refusals, want := range map[int]string{3: `"text":"done"`, 100: "it is not ready in time"} {
		bubble(t, func(t *testing.T, w *world) {
			rounds := 0
			w.behind(&fakeDesk{handle: func(_ context.Context, _ gateway.Caller, r *gateway.Request) (mcp.Object,
				error,
			) {
				rounds++
				state := r.Params.Text("requestState")
				switch {
				case rounds == 1:
					return object(`{"resultType":"input_required","requestState":"held"}`), nil
				case state != "held":
					t.Errorf("round %d has state %q", rounds, state)
				case rounds <= 1+refusals:
					return mcp.Object{}, mcp.Stable(mcp.CodeLimited, "DB-LIMIT-CONCURRENCY",
						"too many").After(time.Second)
				}
				return textResult("done"), nil
			}})
			got := w.do(t, legacyCall(w.open(t, "alice", mcp.Revision2511), "echo"))
			if body := got.Body.String(); got.Code != http.StatusOK || !strings.Contains(body, want) ||
				strings.Contains(body, "retryAfterMs") {
				t.Errorf("after %d refusals: got %d %s, want %s", refusals, got.Code, body, want)
			}
		})
	}
}
