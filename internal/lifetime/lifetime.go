// Package lifetime answers: until when may a call go on, and why does it end? Its Context
// does the work of context.WithCancelCause or context.WithTimeout, but costs a call
// nothing as long as nobody waits for its end. It knows nothing of calls.
package lifetime

import (
	"context"
	"sync"
	"time"
)

// Context is a context that ends with its parent, with another context that it depends
// on, when End is called, or when its time is over. Nearly every call is answered before
// anybody waits for its end, so what such a wait needs, which is a channel, a timer and
// an entry with the parent, is made at the first call of Done:
//
//	Begin ──▶ bare ──Done, End, or a look after the end──▶ armed: a context of the standard library does everything
//	            │                                            │
//	            └───────────────────Close────────────────────┴──▶ over
//
// A bare Context is told of its end by nobody, but whoever looks with Err sees it at
// once. It is safe for concurrent use after Begin. The zero Context is for Begin.
type Context struct {
	parent   context.Context //nolint:containedctx // the Context is a context itself
	deadline time.Time       // of its own; zero: none
	other    context.Context //nolint:containedctx // it ends with that too; nil: there is none
	cause    error           // of an end with other

	mu    sync.Mutex      // guards the fields below
	armed context.Context //nolint:containedctx // does everything from now on; nil: the Context is bare
	end   context.CancelCauseFunc
	free  context.CancelFunc // ends the timer of armed; nil: there is none
	stop  func() bool        // armed is told no more of the end of other; nil: there is none
	over  bool               // Close was called
}

var _ context.Context = (*Context)(nil)

// Begin begins a Context that ends with its parent. c is new. Whoever calls Begin calls
// Close in the end.
func (c *Context) Begin(parent context.Context) { c.parent = parent }

// DependOn has a Context that has just begun end with another context, too. cause is what
// context.Cause returns then.
func (c *Context) DependOn(other context.Context, cause error) { c.other, c.cause = other, cause }

// EndAt has a Context that has no deadline of its own end at a time, too. Nobody uses the
// Context meanwhile but who may End it, and who waited for its end before is told of the
// time no more.
func (c *Context) EndAt(deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = deadline
	if c.armed != nil {
		c.armed, c.free = context.WithDeadline(c.armed, deadline)
	}
}

// End ends the Context. cause is what context.Cause returns from then on, unless it has
// ended before; nil stands for context.Canceled.
func (c *Context) End(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armLocked()
	c.end(cause)
}

// Close ends the Context and gives back what it holds. It is called when the call is
// over.
func (c *Context) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.armed != nil {
		c.closeLocked()
	}
}

// closeLocked is Close for an armed Context.
func (c *Context) closeLocked() {
	c.end(nil)
	if c.free != nil {
		c.free()
	}
	if c.stop != nil {
		c.stop()
	}
}

// armLocked makes the context that does everything from now on, if there is none yet.
func (c *Context) armLocked() {
	if c.armed != nil {
		return
	}
	c.armed, c.end = context.WithCancelCause(c.parent)
	if !c.deadline.IsZero() {
		c.armed, c.free = context.WithDeadline(c.armed, c.deadline)
	}
	if c.other != nil {
		end, cause := c.end, c.cause
		if c.other.Err() != nil {
			end(cause)
		}
		c.stop = context.AfterFunc(c.other, func() { end(cause) })
	}
	if c.over {
		c.closeLocked()
	}
}

// Deadline implements context.Context.
func (c *Context) Deadline() (deadline time.Time, ok bool) {
	outer, ok := c.parent.Deadline()
	if c.deadline.IsZero() || ok && outer.Before(c.deadline) {
		return outer, ok
	}
	return c.deadline, true
}

// Done implements context.Context.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armLocked()
	return c.armed.Done()
}

// Err implements context.Context.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed == nil {
		if !c.over && c.parent.Err() == nil && (c.other == nil || c.other.Err() == nil) &&
			(c.deadline.IsZero() || time.Now().Before(c.deadline)) {
			return nil
		}
		c.armLocked()
	}
	return c.armed.Err()
}

// Value implements context.Context. Package context asks for keys of its own, so that
// what is made from an armed Context hangs on armed without a goroutine between the two.
func (c *Context) Value(key any) any {
	c.mu.Lock()
	armed := c.armed
	c.mu.Unlock()
	if armed != nil {
		return armed.Value(key)
	}
	return c.parent.Value(key)
}
