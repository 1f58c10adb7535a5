package gateway

import (
	"context"
	"errors"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/allot"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// doling gives out a few places, and more when it is asked.
type doling struct{ here, steps int }

func (d *doling) Here(_ allot.Kind, _ string, limit int) int { return min(d.here, limit) }

func (d *doling) More(context.Context, allot.Kind, string, int) bool {
	if d.steps == 0 {
		return false
	}
	d.steps--
	d.here *= 2
	return true
}

// TestPlacesAreTakenOfWhatIsHere shows that a caller is refused only when this replica cannot have more places, and that
// one user then has half of what is here.
func TestPlacesAreTakenOfWhatIsHere(t *testing.T) {
	d := &doling{here: 2, steps: 2}
	b := newBench(t, TenantConfig{ID: "acme", Servers: []string{"box"}})
	b.config.Allot = d
	taken := 0
	err := error(nil)
	for err == nil {
		if err = b.takePlace(t.Context(), allot.Streams, share.User(alice.User()), 100); err == nil {
			taken++
		}
	}
	if taken != 4 || !errors.Is(err, errUserPlaces) || d.steps != 0 {
		t.Errorf("got %d places of 8, %d steps left, %v", taken, d.steps, err)
	}
	if got := b.Taken(allot.Streams, "acme"); got != taken {
		t.Errorf("%d are said to be taken", got)
	}
}
