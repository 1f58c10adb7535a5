package upstream_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

const (
	flood     = 20_000          // messages of progress in one call
	floodTime = 2 * time.Second // that they take at least: 10,000 are free, then 5,000 a second
)

// drown calls a tool that sends a flood of progress, and returns how long that took and
// how much of it came.
func drown(t *testing.T, r *rig, tool string) (took time.Duration, came int, last mcp.Object) {
	t.Helper()
	began := time.Now()
	result, err := r.call(t.Context(), tool, `{"arguments":{"n":20000},"_meta":{"progressToken":"p"}}`,
		func(n mcp.Notification) {
			came, last = came+1, n.Params
		})
	if err != nil || text(result) == "" {
		t.Errorf("got %s and %v (%v), want a result", result.JSON(), err, cause(err))
	}
	return time.Since(began), came, last
}

// TestAFloodOverHTTPIsReadAtItsPace lets servers of each transport over HTTP flood one
// call.
func TestAFloodOverHTTPIsReadAtItsPace(t *testing.T) {
	t.Parallel()
	for kind, fresh := range patients() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, tool := fresh(), "progress"
				if !p.sse {
					tool, p.call = "ill", floods
				}
				r := start(t, p.config())
				synctest.Wait()
				took, came, last := drown(t, r, tool)
				if took < floodTime-100*time.Millisecond || took > 2*floodTime {
					t.Errorf("%d messages took %v, want about %v", flood, took, floodTime)
				}
				if value, _ := last.Value("progress").Int(); came < flood/2 || value != flood-1 {
					t.Errorf("%d came, the last with %d; want most of them, and the last", came, value)
				}
				if r.count(upstream.Paced) == 0 {
					t.Error("no pause was counted")
				}
				r.stop()
				synctest.Wait()
			})
		})
	}
}

// floods answers a call of a tool over Streamable HTTP with a flood of progress before
// the result.
func floods(w http.ResponseWriter, _ *http.Request, m wire) {
	send := events(w)
	for i := range flood {
		send(
			"%s", data(
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, m.Params.Meta["progressToken"], i))
	}
	send("%s", data(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, okResult))
}

// TestAFloodOfAChildIsReadAtItsPace lets a child flood one call: its pipe makes it wait.
func TestAFloodOfAChildIsReadAtItsPace(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"modern", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := start(t, command(kind))
			r.untilTool("progress")
			took, _, last := drown(t, r, "progress")
			if took < floodTime/2 {
				t.Errorf("%d messages took %v, want about %v", flood, took, floodTime)
			}
			if value, _ := last.Value("progress").Int(); value != flood-1 {
				t.Errorf("the last that came was %d, want %d", value, flood-1)
			}
		})
	}
}
