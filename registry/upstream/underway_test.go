package upstream_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// TestProgressOnTheSessionsOwnStreamReachesItsCall has a server tell progress beside the
// response of the call, as mcp-go does. It was dropped, although its token says which
// call it belongs to.
func TestProgressOnTheSessionsOwnStreamReachesItsCall(t *testing.T) {
	t.Parallel()
	for _, asks := range []string{anyQuestion, ""} {
		visit(t, upstream.Config{}, func(t *testing.T, _ *origin, r *rig) {
			heard := &notes{}
			c := person{"a", "alice", asks, ""}.call(t, "x", "", "", heard)
			c.Params = parse(t, `{"name":"steps","_meta":{"progressToken":"mine"}}`)
			if _, _, got, err := r.round(t.Context(), "steps", c); err != nil || got != "stepped" {
				t.Fatalf("got %q, %v", got, err)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := heard.text(); got != "one two" {
				t.Errorf("progress of a caller who can be asked %q: got %q, want what came before the answer",
					asks, got)
			}
		}, readScript(t, "mcpgo-progress"))
	}
}
