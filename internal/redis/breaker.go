package redis

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Why no call is made.
var (
	errNotYet  = errors.New("it was not reached yet")
	errStopped = errors.New("the gateway stops")
	errLate    = errors.New("it did not answer in time")
)

// A breaker that opens again within relapse of closing needs twice as many probes in a
// row to close again, up to mostProofs: a server that is well every other second would
// otherwise cost callers their patience every other second.
const (
	relapse    = 10 * time.Second
	mostProofs = 32
)

// breaker says whether the server is asked at all. The zero breaker is open: no probe has
// succeeded yet.
//
//	        an answer says that nothing can be written; a connection ends; a probe fails
//	closed ───────────────────────▶ open
//	   ▲                             │
//	   └── enough probes succeed ────┘
//
// Only the goroutine of Store.Run probes and closes it, so that no caller ever waits to
// find out, and there is nothing that callers could rush at. It is safe for concurrent
// use.
type breaker struct {
	state atomic.Pointer[problem] // nil: open, and never probed

	mu     sync.Mutex // guards the fields below, and changes of state
	proofs int        // probes that succeeded since it opened
	need   int        // how many must, before it closes; zero: one
	closed time.Time  // when it was closed last
}

// problem is why the server is not asked; a nil error: it is.
type problem struct{ err error }

// problem returns nil if the server may be asked, and otherwise an error that wraps
// ErrDown.
func (b *breaker) problem() error {
	if p := b.state.Load(); p != nil {
		return p.err
	}
	return fmt.Errorf("%w: %w", ErrDown, errNotYet)
}

// open notes why the server is not asked any more, in an error that wraps ErrDown. It
// tells whether it was asked until now.
func (b *breaker) open(err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.state.Load()
	b.state.Store(&problem{err})
	b.proofs = 0
	if was == nil || was.err != nil {
		return false
	}
	if time.Since(b.closed) < relapse {
		b.need = min(2*max(b.need, 1), mostProofs)
	} else {
		b.need = 1
	}
	return true
}

// prove notes a probe that succeeded, and closes the breaker if that is enough.
func (b *breaker) prove() (closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.proofs++; b.proofs < b.need {
		return false
	}
	b.state.Store(&problem{})
	b.closed = time.Now()
	return true
}
