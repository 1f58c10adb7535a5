package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
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

// TestLaterRoundIsTriedAgainWhereItIsRefused has the desk refuse the second round of a
// call, because the limits allow no call at the moment: a few times, and for good.
// Nothing advises an older client to make the call again, of which the first round was
// done.
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

// TestLaterRoundIsNotTriedAgainWhereThatHelpsNobody has the second round refused by what
// lasts. The client is told why at once.
func TestLaterRoundIsNotTriedAgainWhereThatHelpsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		rounds := 0
		w.behind(&fakeDesk{handle: func(context.Context, gateway.Caller, *gateway.Request) (mcp.Object, error) {
			if rounds++; rounds == 1 {
				return object(`{"resultType":"input_required","requestState":"held"}`), nil
			}
			return mcp.Object{}, mcp.Stable(mcp.CodeInternal, "DB-UPSTREAM-CREDENTIAL",
				"the credential is not taken").After(30 * time.Second)
		}})
		began := time.Now()
		got := w.do(t, legacyCall(w.open(t, "alice", mcp.Revision2511), "echo"))
		if body := got.Body.String(); !strings.Contains(body, "the credential is not taken") ||
			strings.Contains(body, "retryAfterMs") || time.Since(began) > 10*time.Second {
			t.Errorf("after %v: got %d %s, want the reason", time.Since(began), got.Code, body)
		}
	})
}

// forgetful is a server that offers each user a tool, and has to be asked each time
// which, as after a new connection to it.
type forgetful struct{ lists *registry.Lists }

func (f forgetful) Lists(context.Context, *auth.Principal) (*registry.Lists, error) {
	return f.lists, nil
}

func (forgetful) Known(*auth.Principal) *registry.Lists { return nil }

// TestLaterRoundAsksWhatItsServerOffers has a tool say later, of a server that has lists
// for each user.
func TestLaterRoundAsksWhatItsServerOffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) {
		w.tenants[0].Servers, w.tenants[0].Rules = []string{"own"}, []gateway.Rule{{Allow: []string{"*"}}}
	})
	own := registry.Source{Name: "own", Prefix: "own", Unread: []registry.Kind{registry.KindTool}}
	lists, refused := w.registry.NewLists(registry.Source{Name: "own", Prefix: "own", Tools: []registry.Offer{{
		Definition: object(`{"name":"slow","inputSchema":{"type":"object"}}`), Timeout: time.Minute,
		Call: func(_ context.Context, c *registry.Call) (mcp.Object, error) {
			if !c.Params.Has("requestState") {
				return object(`{"resultType":"input_required","requestState":"s"}`), nil
			}
			return textResult("done"), nil
		},
	}}})
	if left := w.registry.ReplacePersonal(own, forgetful{lists}); len(left)+len(refused) > 0 {
		t.Fatal(left, refused)
	}
	got := w.do(t, legacyCall(w.open(t, "alice", mcp.Revision2511), "own__slow"))
	if body := got.Body.String(); !strings.Contains(body, `"text":"done"`) {
		t.Errorf("got %d %s, want the result", got.Code, body)
	}
}
