package gateway

import (
	"sync"
	"time"
)

// stateLife is how long a requestState is valid.
const stateLife = 10 * time.Minute

// maxUsed is how many used states are remembered at most in each of two spans of time.
const maxUsed = 1 << 16

// used remembers which states were used, for as long as they are valid. It has a bound: a
// state for which there is no room counts as used, and then costs what a call costs. It
// is safe for concurrent use.
type used struct {
	mu       sync.Mutex // guards the fields below
	began    time.Time  // when the present span began
	now      map[nonce]struct{}
	previous map[nonce]struct{}
}

type nonce [16]byte

func newUsed() *used { return &used{now: make(map[nonce]struct{})} }

// first tells whether this is the first use of the state with that nonce, and remembers
// it.
func (u *used) first(n nonce, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turnLocked(now)
	_, known := u.now[n]
	_, knew := u.previous[n]
	if known || knew || len(u.now) >= maxUsed {
		return false
	}
	u.now[n] = struct{}{}
	return true
}

// turnLocked begins a new span if the present one is over. A state that was used in one
// span is remembered until the next one ends, so for at least as long as it is valid.
func (u *used) turnLocked(now time.Time) {
	past := now.Sub(u.began)
	if past < stateLife {
		return
	}
	u.previous = u.now
	if past >= 2*stateLife {
		u.previous = nil
	}
	u.now, u.began = make(map[nonce]struct{}), now
}
