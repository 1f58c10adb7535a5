package seats

import (
	"context"
	"time"
)

// Session is what a seat holds.
type Session interface {
	// Open opens the session. It calls opened as soon as there is one, and returns when it can be used. After an error there
	// is nothing to close.
	Open(ctx context.Context, opened func()) error
	// Doubts returns a channel on which something waits when a proof of life is called for.
	Doubts() <-chan struct{}
	// Alive asks for a proof of life.
	Alive(ctx context.Context) error
	// Close ends the session and waits for all that belongs to it; polite says good-bye. It is called once, and not before
	// Open has returned without an error. No call uses the seat then, unless the whole room is closed: calls that go on
	// must end with an error.
	Close(ctx context.Context, polite bool)
}

const (
	idleLimit = 5 * time.Minute // until a seat that nobody uses is closed
	turnLimit = 2 * time.Second // before one that is never idle makes room for who has none
)

// State is where a seat is between its opening and its end.
type State int

// The states, in the order of a life.
const (
	Opening  State = iota // it takes calls, which wait until it is open
	Open                  // it takes calls
	Examined              // it takes calls, and a proof of life is asked for
	Retiring              // others wait for its place: it takes no more calls, and makes room when its last one has ended
	Dead                  // it showed no life: it takes no more calls, and is closed when its last one has ended
	Closing               // it is being closed, and still has its place
	Gone                  // its place is free
)

func (s State) String() string {
	return [...]string{"opening", "open", "examined", "retiring", "dead", "closing", "gone"}[s]
}

// taking tells whether a seat in this state takes calls.
func (s State) taking() bool { return s <= Examined }

// Seat is one place, and the session in it, which never changes.
type Seat[S Session] struct {
	Session S
	doubts  <-chan struct{}
	opened  chan struct{} // closed when the session can be used, or err is set
	err     error         // why there is no session

	// Guarded by the room's mutex.
	key          Key // changes where seats are lent
	state        State
	calls, loans int
	since        time.Time // when it was opened
	idle         time.Time // since when there are no calls
	needed       time.Time // until when it is kept although nobody uses it; zero: it is not
}

// unusedLocked tells whether nobody would miss the seat, after it was idle for long.
func (s *Seat[S]) unusedLocked() bool {
	return s.calls == 0 && s.loans == 0 && s.needed.IsZero() && time.Since(s.idle) >= idleLimit
}

// beforeLocked tells whether s makes room before other does: those on which something goes on beside calls come last, those
// that are needed late, and otherwise the one that has been idle longest comes first.
func (s *Seat[S]) beforeLocked(other *Seat[S]) bool {
	if (s.loans == 0) != (other.loans == 0) {
		return s.loans == 0
	}
	if s.needed.IsZero() != other.needed.IsZero() {
		return s.needed.IsZero()
	}
	return s.idle.Before(other.idle)
}

// hadTurnLocked tells whether a seat may retire. A patient one may not, as it could be busy long after that, and neither may
// one that is needed.
func (s *Seat[S]) hadTurnLocked() bool {
	return !s.key.Patient && s.needed.IsZero() && (s.state == Open || s.state == Examined) && time.Since(s.since) >= turnLimit
}
