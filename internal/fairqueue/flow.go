package fairqueue

import (
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// flow is what one tenant, or one user of a tenant, has of the work. Virtual time is a
// sum of times for which slots were held, and means something only within one group.
type flow struct {
	key     share.User
	served  time.Duration // the virtual time up to which it has been served
	serving int           // its turns that hold a slot
	waiting int           // its turns that wait
	inner   group         // of a tenant: its users
	queue   []*turn       // of a user: its turns that wait, the first come first
}

// finish notes that a turn of the flow has ended that took so much longer than was
// estimated.
func (f *flow) finish(excess time.Duration) {
	f.serving--
	f.served += excess
}

// group are flows that take turns. The zero group has none.
type group struct {
	// the virtual time at which the turn began that was last given a slot; it never goes
	// back
	clock time.Duration
	flows []*flow // those that have turns, or are ahead of the clock; who was served last stands last
}

// flow returns the flow with that key.
func (g *group) flow(key share.User) *flow {
	for _, f := range g.flows {
		if f.key == key {
			return f
		}
	}
	f := &flow{key: key}
	g.flows = append(g.flows, f)
	return f
}

func (g *group) isWaiting() bool {
	return slices.ContainsFunc(g.flows, func(f *flow) bool { return f.waiting > 0 })
}

// next returns, of the flows that wait, the one whose turn would begin first in virtual
// time. One of them must wait.
func (g *group) next() *flow {
	var first *flow
	for _, f := range g.flows {
		if f.waiting > 0 && (first == nil || g.start(f) < g.start(first)) {
			first = f
		}
	}
	return first
}

// start returns the virtual time at which a turn of f would begin now. To have been idle
// earns nothing.
func (g *group) start(f *flow) time.Duration { return max(f.served, g.clock) }

// serve notes that a turn of f that waited gets a slot.
func (g *group) serve(f *flow, estimate time.Duration) {
	g.clock = g.start(f)
	f.served = g.clock + estimate
	f.waiting--
	f.serving++
	i := slices.Index(g.flows, f)
	g.flows = append(slices.Delete(g.flows, i, i+1), f)
}

// forget drops flows that have no turn and nothing to make up for. When nothing is left
// to do, that is all of them.
func (g *group) forget() {
	idle := !slices.ContainsFunc(g.flows, func(f *flow) bool { return f.waiting+f.serving > 0 })
	g.flows = slices.DeleteFunc(g.flows, func(f *flow) bool {
		return f.waiting+f.serving == 0 && (idle || f.served <= g.clock)
	})
}
