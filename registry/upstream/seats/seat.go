package seats

import (
	"context"
	"time"
)

// Session is what a seat holds. The pool calls Open once, and Alive and Close only after
// Open has called opened.
type Session interface {
	// Open opens the session. It calls opened as soon as there is a session, and returns
	// when the session can be used. After an error there is nothing to close.
	Open(ctx context.Context, opened func()) error
	// Suspected returns a channel on which a value waits when the session should prove
	// that it lives. The pool takes the value when a call ends. It is called with the
	// pool's lock held, once, before Open, and must not block.
	Suspected() <-chan struct{}
	// Alive asks the session for a proof of life; nil means that it lives.
	Alive(ctx context.Context) error
	// Close ends the session and waits for all that belongs to it. polite: the server is
	// still there, so it is told. Close is called once, after Open has returned without
	// an error. No call uses the seat then, unless the whole pool is closed: calls that
	// still run must end with an error.
	Close(ctx context.Context, polite bool)
}

const (
	idleLimit = 5 * time.Minute // after which Sweep closes a seat that nobody uses
	turnLimit = 2 * time.Second // how long a seat that is never idle is used before others get its slot
)

// State is where a seat is between its opening and its end.
type State int

// The states, in the order of a life.
const (
	Opening  State = iota // it takes calls, which wait until the session can be used
	Open                  // it takes calls
	Examined              // it takes calls while its session is asked for a proof of life
	// others wait for its slot: it takes no more calls; closed when its last one has
	// ended
	Retiring
	// its session showed no life: it takes no more calls; closed when its last one has
	// ended
	Dead
	Closing // it is being closed and still has its slot
	Gone    // its slot is free
)

func (s State) String() string {
	return [...]string{"opening", "open", "examined", "retiring", "dead", "closing", "gone"}[s]
}

// taking tells whether a seat in this state takes calls.
func (s State) taking() bool { return s <= Examined }

// Seat is one slot in a Pool and the session in it, which never changes. Whoever got it
// from Take may use Session until Release.
type Seat[S Session] struct {
	Session   S
	suspected <-chan struct{}
	opened    chan struct{} // closed when the session can be used, or after err was set
	err       error         // why there is no session

	// Guarded by the pool's mutex.
	key          Key // changes in a pool that lends; otherwise never
	state        State
	calls, loans int
	since        time.Time // when it was opened
	idle         time.Time // since when no call runs on it, or when its latest loan ended
	needed       time.Time // until then an idle seat is kept; zero: it is not
}

// takesLocked tells whether the seat takes calls of the key.
func (s *Seat[S]) takesLocked(k Key) bool { return s.state.taking() && s.key == k }

// unusedLocked tells whether the seat has been idle for idleLimit and nothing else keeps
// it.
func (s *Seat[S]) unusedLocked() bool {
	return s.calls == 0 && s.loans == 0 && s.needed.IsZero() && time.Since(s.idle) >= idleLimit
}

// beforeLocked tells whether s is closed before other, of two idle seats: a seat without
// loans before one with, then one that is not needed before one that is, then the one
// that has been idle longer.
func (s *Seat[S]) beforeLocked(other *Seat[S]) bool {
	if (s.loans == 0) != (other.loans == 0) {
		return s.loans == 0
	}
	if s.needed.IsZero() != other.needed.IsZero() {
		return s.needed.IsZero()
	}
	return s.idle.Before(other.idle)
}

// hadTurnLocked tells whether a seat may be retired. A patient seat may not, because it
// would make no pool for as long as its caller thinks; neither may one that is needed.
func (s *Seat[S]) hadTurnLocked() bool {
	return !s.key.Patient && s.needed.IsZero() && (s.state == Open || s.state == Examined) &&
		time.Since(s.since) >= turnLimit
}
