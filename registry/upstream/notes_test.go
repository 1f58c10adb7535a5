package upstream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// TestNotificationsOfASlowTakerStayWithinItsShare lets a caller take nothing of the
// progress of its calls. What waits is held by that user alone, up to its share; a
// colleague on the same connection to the server misses nothing. Uncounted, 256
// notifications of 64 KiB could wait for every call.
func TestNotificationsOfASlowTakerStayWithinItsShare(t *testing.T) {
	t.Parallel()
	const size, flooded = 32 << 10, 60
	for _, kind := range []string{"modern", "legacy"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cfg := command(kind)
			cfg.Memory = share.New(8 << 20)
			r := start(t, cfg)
			r.untilTool("progress")
			call := func(user string, n int, notify func()) error {
				c := r.holder("acme", user, 0)
				defer c.Memory.Release()
				c.Params = mcp.NewObject(
					mcp.Member{
						Name:  "arguments",
						Value: mcp.RawJSON(fmt.Sprintf(`{"n":%d,"size":%d}`, n, size)),
					},
					mcp.Member{Name: "_meta", Value: mcp.RawJSON(`{"progressToken":"p"}`)},
				)
				c.Notify = func(context.Context, mcp.Notification) error {
					notify()
					return nil
				}
				_, err := r.tool("progress").Call(t.Context(), c)
				return err
			}
			took, done := make(chan struct{}), make(chan error)
			const slow = 4
			for range slow {
				go func() { done <- call("alice", flooded, func() { <-took }) }()
			}
			r.until("some of it is dropped", func() bool { return r.count(upstream.Flooded) > flooded })
			if held := cfg.Memory.InUse(); held < cfg.Memory.Most()/2 || held > cfg.Memory.Most()+share.Step {
				t.Errorf(
					"%d are held by a taker who takes nothing, want the share of one user, %d, to be full",
					held, cfg.Memory.Most())
			}
			heard := 0
			if err := call("bob", 20, func() { heard++ }); err != nil || heard != 20 {
				t.Errorf("a colleague: heard %d of 20, error %v", heard, cause(err))
			}
			close(took)
			for range slow {
				if err := await(t, done); err != nil {
					t.Error(cause(err))
				}
			}
			eventually(t, "nothing is held any more", func() bool { return cfg.Memory.InUse() == 0 })
		})
	}
}

// TestQuestionsOfAParkedCallAreHeldByItsCaller: a server asks more while a call is
// parked. That counts at once, and not only when the call is parked the next time.
func TestQuestionsOfAParkedCallAreHeldByItsCaller(t *testing.T) {
	t.Parallel()
	b := share.New(64 << 20)
	p := person{name: "alice", tenant: "acme", asks: anyQuestion}
	inBubble(t, &chat{}, func(cfg *upstream.Config) { cfg.Memory = b }, func(t *testing.T, r *rig) {
		round := func(tool, token, responses, state string) (asked mcp.Object, next, got string) {
			c := p.call(t, token, responses, state, nil)
			c.Memory = b.Reserve(share.User(c.Principal.User()))
			defer c.Memory.Release()
			asked, next, got, err := r.round(t.Context(), tool, c)
			if err != nil {
				t.Fatal(cause(err))
			}
			return asked, next, got
		}
		asked, state, _ := round("after", "a", "", "")
		before := b.InUse()
		wait(t.Context(), secondQuestion)
		synctest.Wait()
		if held := b.InUse(); held-before < 1<<20 {
			t.Errorf("%d are held for one question and %d for two, the second one of 1 MiB", before, held)
		}
		asked, state, _ = round("after", "a", accept(asked, "1"), state)
		_, _, got := round("after", "a", accept(asked, "2"), state)
		if !strings.Contains(got, "1") || !strings.Contains(got, "2") {
			t.Errorf("got %s, want both answers", got)
		}
		if held := b.InUse(); held != 0 {
			t.Errorf("%d are held in the end", held)
		}
	})
}
