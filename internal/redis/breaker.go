package redis

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// Why no call is made.
var (
	errNotYet  = errors.New("it was not reached yet")
	errStopped = errors.New("the gateway stops")
)

// breaker says whether the server is asked at all. The zero breaker is open: no probe has succeeded yet.
//
//	        a call gets no answer
//	closed ───────────────────────▶ open
//	   ▲                             │
//	   └──────── a probe succeeds ───┘
//
// It is safe for concurrent use.
type breaker struct {
	state atomic.Pointer[problem] // nil: open, and never probed
}

// problem is why the server is not asked; a nil error: it is.
type problem struct{ err error }

// problem returns nil if the server may be asked, and otherwise an error that wraps ErrDown.
func (b *breaker) problem() error {
	switch p := b.state.Load(); {
	case p == nil:
		return fmt.Errorf("%w: %w", ErrDown, errNotYet)
	case p.err == nil:
		return nil
	case errors.Is(p.err, ErrDown):
		return p.err
	default:
		return fmt.Errorf("%w: %w", ErrDown, p.err)
	}
}

// set notes what a probe or a call has found.
func (b *breaker) set(err error) { b.state.Store(&problem{err}) }
