package upstream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// parks tells whether a call of p comes to wait for an answer within the time.
func (r *rig) parks(p person, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(r.t.Context(), within)
	defer cancel()
	asked, _, _, err := r.round(ctx, "late", p.call(r.t, "", "", "", nil))
	return err == nil && asked.Len() == 1
}

// serves checks that a call of p finds a session.
func (r *rig) serves(p person) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	if _, _, _, err := r.round(ctx, "answers", p.call(r.t, "", "", "", nil)); err != nil {
		r.t.Errorf("%s of %s is not served: %s", p.name, p.tenant, cause(err))
	}
}

// One user, and then all of a tenant, let calls wait for answers in as many children as
// they get.
func TestCallsThatWaitLeaveChildrenToOthers(t *testing.T) {
	t.Parallel()
	r := start(t, command("chat")) // 7 children for calls
	r.untilTool("late")
	for n := range 4 {
		if !r.parks(person{"a", "alice", anyQuestion, ""}, limit) {
			t.Errorf("one user has %d children, want 4", n)
		}
	}
	if r.parks(person{"a", "alice", anyQuestion, ""}, 500*time.Millisecond) {
		t.Error("one user has 5 children, want 4")
	}
	if !r.parks(person{"a", "bob", anyQuestion, ""}, limit) {
		t.Error("another user has no child")
	}
	if r.parks(person{"a", "eve", anyQuestion, ""}, 500*time.Millisecond) {
		t.Error("one tenant has 6 children, want 5")
	}
	r.serves(person{"b", "carol", anyQuestion, ""})
	r.serves(person{"a", "eve", "", ""})
}

// Over HTTP, calls of one client share a session, but for each set of capabilities there
// is another one.
func TestCallsThatWaitLeaveSessionsToOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
		parked := 0
		for _, name := range []string{"alice", "bob"} {
			for n := range 34 {
				asks := fmt.Sprintf(`{"elicitation":{"form":{}},"roots":{"%d":{}}}`, n)
				if r.parks(person{"a", name, asks, ""}, time.Second) {
					parked++
				}
			}
		}
		if parked != 48 {
			t.Errorf("one tenant has %d sessions, want 48", parked)
		}
		r.serves(person{"b", "carol", anyQuestion, ""})
		r.serves(person{"a", "dave", "", ""})
	})
}

// What a server asks waits for minutes in the gateway's memory, and 64 questions may be
// 16 MiB each.
func TestOpenQuestionsOfACallHaveASize(t *testing.T) {
	t.Parallel()
	inBubble(t, &chat{}, nil, func(t *testing.T, r *rig) {
		asked, state := r.first("huge", alice)
		if asked.Len() != 1 {
			t.Fatalf("%d questions are open, want 1", asked.Len())
		}
		_, _, got, err := r.round(t.Context(), "huge", alice.call(t, "", accept(asked, "x"), state, nil))
		if err != nil || !strings.Contains(got, `"message":"The open questions of this call are too large"`) {
			t.Errorf("got %.200s, %v", got, err)
		}
	})
}

// Notifications wait for a caller who is slow to take them: how many is bounded, and so
// must be how large.
func TestWaitingNotificationsHaveASize(t *testing.T) {
	t.Parallel()
	for name, asks := range map[string]string{"plain": "", "who can be asked": anyQuestion} {
		r := start(t, command("chat"))
		r.untilTool("verbose")
		took := make(chan struct{})
		c := person{"a", "alice", asks, "info"}.call(t, "t", "", "", nil)
		heard := 0
		c.Notify = func(context.Context, mcp.Notification) error {
			if heard++; heard == 1 {
				<-took
			}
			return nil
		}
		done := make(chan error, 1)
		go func() {
			_, _, _, err := r.round(t.Context(), "verbose", c)
			done <- err
		}()
		r.until("dropped", func() bool { return r.count(upstream.Flooded) >= 90 })
		close(took)
		if err := await(t, done); err != nil || heard > 10 {
			t.Errorf("%s: heard %d notifications of 100 KiB, %v; want few to have waited", name, heard, err)
		}
		r.stop()
	}
}
