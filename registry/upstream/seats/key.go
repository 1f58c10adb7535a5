package seats

import "github.com/drawbridge-mcp/drawbridge/auth"

// Key says who may share a seat: calls with the same key.
type Key struct {
	// Owner has every part where the seat is for one caller alone, the tenant where it is for all of that tenant, and none
	// where it is for everyone.
	auth.Owner

	Traits  string // what else a session is opened with, in one spelling; "": nothing
	Patient bool   // its calls may wait for a human, so that it can be busy for long without being forgotten
	Alone   bool   // one call at a time
	Kept    bool   // where seats are lent: its seats are lent to no other owner
	Solo    bool   // where seats are lent: one call at a time, on a seat that calls of other keys may have next
}

// ofOne tells whether the seats of this key are for one user.
func (k Key) ofOne() bool { return k.Subject != "" }

// sameUser tells whether two keys are of one user, in whichever client.
func (k Key) sameUser(other Key) bool {
	return k.User == other.User
}

// Use is what a seat is wanted for.
type Use int

// The uses.
const (
	Call Use = iota // keeps its seat until it ends
	Loan            // goes on beside calls, and loses its seat when no other can make room
)
