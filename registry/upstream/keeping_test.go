package upstream_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// counted makes a call of alice count in a budget what is kept of it. The test releases
// its claim, as the gateway does when the caller has the answer.
func counted(b *share.Budget, c *registry.Call) *registry.Call {
	c.Memory = b.Reserve(share.User{TenantID: alice.tenant, Subject: alice.name})
	return c
}

// TestArgumentsOfParkedCallsAreCounted parks calls with large arguments, and lets them
// end in each way.
func TestArgumentsOfParkedCallsAreCounted(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for name, test := range map[string]struct {
		tool string
		end  func(t *testing.T, r *rig, again func() *registry.Call)
	}{
		"the answer comes": {"late", func(t *testing.T, r *rig, again func() *registry.Call) {
			if _, _, _, err := r.round(t.Context(), "late", again()); err != nil {
				t.Error(err)
			}
		}},
		"nobody comes back": {"late", func(*testing.T, *rig, func() *registry.Call) {
			time.Sleep(6 * time.Minute)
			synctest.Wait()
		}},
		"the server goes on without the answer": {
			"quit",
			func(t *testing.T, r *rig, again func() *registry.Call) {
				time.Sleep(11 * time.Second)
				synctest.Wait()
				if _, _, got, err := r.round(t.Context(), "quit", again()); err != nil ||
					got != "done without" {
					t.Errorf("got %q, %v", got, err)
				}
			},
		},
		"the server goes on, and nobody comes back": {"quit", func(*testing.T, *rig, func() *registry.Call) {
			time.Sleep(6 * time.Minute)
			synctest.Wait()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
				memory := share.New(64 << 20)
				asked, state, _, err := r.round(t.Context(), test.tool,
					counted(memory, alice.call(t, strings.Repeat("x", size), "", "", nil)))
				if err != nil || state == "" {
					t.Fatalf("got %q, %v, want a question", state, err)
				}
				if held := memory.InUse(); held < 2*size || held > 2*size+128<<10 {
					t.Errorf(
						"%d bytes are counted while the call is parked, want its arguments as they came and as they were sent, and a little more", held)
				}
				again := counted(memory, alice.call(t, "", accept(asked, "x"), state, nil))
				test.end(t, r, func() *registry.Call { return again })
				again.Memory.Release()
				if held := memory.InUse(); held != 0 {
					t.Errorf("%d bytes are counted after the end, want none", held)
				}
			})
		})
	}
}

// TestACallThatCannotBeKeptIsRefused parks a call that is larger than its caller may
// hold.
func TestACallThatCannotBeKeptIsRefused(t *testing.T) {
	t.Parallel()
	s := &chat{}
	inBubble(t, s, nil, func(t *testing.T, r *rig) {
		// of which one user may hold the text of the request, and not its parameters
		// beside it
		memory := share.New(6 << 20)
		_, state, _, err := r.round(t.Context(), "late",
			counted(memory, alice.call(t, strings.Repeat("x", 1<<20), "", "", nil)))
		var full *registry.MemoryError
		if !errors.As(err, &full) || state != "" {
			t.Errorf("got %q, %v, want a MemoryError", state, err)
		}
		synctest.Wait()
		if held := memory.InUse(); held != 0 {
			t.Errorf("%d bytes are counted, want none", held)
		}
	})
}
