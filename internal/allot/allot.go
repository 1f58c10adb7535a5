// Package allot answers: how many of a tenant's slots may this replica give out? A
// tenant has a number of slots, such as those for calls at once, and they are taken at
// any replica. So that nobody asks another process at each call, replicas hold slots in
// blocks: who holds a block gives its slots out by itself. The package counts blocks;
// who has which slot is not its question, that is package share's.
//
//	a call ── Here ──▶ the block is large enough, nearly always
//	       ── More ──▶ it is not: a larger one is asked for, in Redis; all who wait share one trip
//	every second ────▶ a block that was used is asked for again: a larger one gives back what is not needed
//
// The blocks of a tenant never have more slots than the tenant has. A block lives as
// long as the presence of its replica (Config.Leads): one that nobody uses costs
// nothing. A replica whose presence is not known any more gives out its share, which is
// the limit divided by the number of replicas that the config names, rounded down, but at
// least one slot.
//
// Who is refused a larger block says how many slots it lacks. The others, as they use
// theirs, give up what they do not need and, as their calls end, what is more than an
// even part, so that no replica keeps the slots of a tenant to itself.
//
// Whole is the gateway with one replica. Blocks keeps them in Redis.
package allot

import "context"

// Kind is what the slots are for.
type Kind string

// The kinds of slots that tenants have.
const (
	Calls   Kind = "calls"
	Streams Kind = "streams"
)

// Slots says how many of them a replica may give out. Implementations are safe for
// concurrent use.
type Slots interface {
	// Here returns how many of the limit slots of the tenant this replica may give out
	// now, those that are taken here included. It waits for nothing.
	Here(kind Kind, tenant string, limit int) int
	// More asks for more than Here said, so that Here may say more after it. It waits
	// until the context ends, for one round trip at most.
	More(ctx context.Context, kind Kind, tenant string, limit int)
}

// Whole is Slots where there is one replica.
type Whole struct{}

var _ Slots = Whole{}

// Here implements Slots: all of them.
func (Whole) Here(_ Kind, _ string, limit int) int { return limit }

// More implements Slots: there are no more.
func (Whole) More(context.Context, Kind, string, int) {}
