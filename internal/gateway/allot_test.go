package gateway

import (
	"context"
	"errors"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/allot"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// steppedSlots gives out a few slots, and more when it is asked.
type steppedSlots struct{ here, steps int }

func (d *steppedSlots) Here(_ allot.Kind, _ string, limit int) int { return min(d.here, limit) }

func (d *steppedSlots) More(context.Context, allot.Kind, string, int) {
	if d.steps > 0 {
		d.steps--
		d.here *= 2
	}
}

// singleSlots gives out one slot more each time that it is asked.
type singleSlots struct{ here int }

func (d *singleSlots) Here(_ allot.Kind, _ string, limit int) int { return min(d.here, limit) }

func (d *singleSlots) More(context.Context, allot.Kind, string, int) { d.here++ }

// TestSlotsAreAskedForUntilOneIsFree: a replica that gets too few slots in one step asks
// again, so that a burst of one user's calls is served while slots of the tenant are
// free.
func TestSlotsAreAskedForUntilOneIsFree(t *testing.T) {
	b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"box"}})
	b.config.Allot = &singleSlots{here: 1}
	for n := range 50 {
		if err := b.takeSlot(t.Context(), allot.Calls, share.User(alice.User()), 100); err != nil {
			t.Fatalf("call %d of 50 at once: %v", n+1, err)
		}
	}
	if err := b.takeSlot(t.Context(), allot.Calls, share.User(alice.User()), 100); !errors.Is(err,
		share.ErrUser) {
		t.Errorf("one over half of the slots: %v", err)
	}
}

// TestSlotsAreTakenOfWhatIsHere shows that a caller is refused only when this replica
// cannot have more slots, and that one user then has half of what is here.
func TestSlotsAreTakenOfWhatIsHere(t *testing.T) {
	d := &steppedSlots{here: 2, steps: 2}
	b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"box"}})
	b.config.Allot = d
	taken := 0
	err := error(nil)
	for err == nil {
		if err = b.takeSlot(t.Context(), allot.Streams, share.User(alice.User()), 100); err == nil {
			taken++
		}
	}
	if taken != 4 || !errors.Is(err, share.ErrUser) || d.steps != 0 {
		t.Errorf("got %d slots of 8, %d steps left, %v", taken, d.steps, err)
	}
	if got := b.Taken(allot.Streams, "acme"); got != taken {
		t.Errorf("%d are said to be taken", got)
	}
}

// overtaken has got all slots for another call by the time that it is asked for more.
type overtaken struct{ here int }

func (o *overtaken) Here(_ allot.Kind, _ string, limit int) int { return min(o.here, limit) }

func (o *overtaken) More(_ context.Context, _ allot.Kind, _ string, limit int) { o.here = limit }

// TestSlotsThatCameForAnotherCallAreTaken: of calls that come at one moment, one that
// asks for more slots after another has got them takes one of those.
func TestSlotsThatCameForAnotherCallAreTaken(t *testing.T) {
	b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"box"}})
	b.config.Allot = &overtaken{here: 2}
	for n := range 2 {
		if err := b.takeSlot(t.Context(), allot.Calls, share.User(alice.User()), 100); err != nil {
			t.Errorf("call %d at once: %v", n+1, err)
		}
	}
}

// TestNoUserIsBlamedForSlotsThatAreElsewhere: a caller who holds nothing was told that it
// had half of what its tenant may have, when other replicas had all of that.
func TestNoUserIsBlamedForSlotsThatAreElsewhere(t *testing.T) {
	b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"box"}})
	b.config.Allot = &steppedSlots{}
	for _, kind := range []allot.Kind{allot.Calls, allot.Streams} {
		err := b.takeSlot(t.Context(), kind, share.User(alice.User()), 100)
		if !errors.Is(err, share.ErrTenant) {
			t.Errorf("%s: got %v, want an error that names the tenant", kind, err)
		}
	}
}
