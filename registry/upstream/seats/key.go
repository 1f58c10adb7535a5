package seats

import "github.com/drawbridge-mcp/drawbridge/auth"

// Key says which calls may share a seat: those with the same key. Keys are compared with
// ==.
type Key struct {
	// Owner has all its parts where the seat is for one owner alone, only the tenant
	// where the seat is for all of that tenant, and none where it is for everyone.
	auth.Owner

	Traits    string // what else a session is opened with, always spelled in the same way; "": nothing
	Patient   bool   // its calls may wait for a human, so it may be busy for long and is never retired
	Alone     bool   // a seat runs one call at a time
	Dedicated bool   // in a pool that lends: its seats are lent to no other owner
	Solo      bool   // in a pool that lends: like Alone, but the seat may run a call of another key next
}

// ofOne tells whether the seats of this key are for one user, and so count towards that
// user's share of the slots.
func (k Key) ofOne() bool { return k.Subject != "" }

// Use is what a seat is wanted for.
type Use int

// The uses.
const (
	Call Use = iota // keeps its seat until it ends: the seat is not closed meanwhile
	Loan            // goes on beside calls; its seat may be closed when no better one can make room
)
