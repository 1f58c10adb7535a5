package share

import (
	"errors"
	"sync"
)

// ErrOver is the error for more memory for something that is over, such as the answer to
// a caller who has left.
var ErrOver = errors.New("nobody holds this any more")

// Reservation is an allocation of memory that goes from hand to hand, as that of an
// answer does: the transport that reads it, the desk and the door each say how large it
// is by now, until it is released, once and for good. What comes too late, from a
// goroutine that does not know yet that the caller has left, takes nothing more.
//
// A Reservation is safe for concurrent use, and must not be copied. A nil Reservation
// counts nothing and refuses nothing. The zero Reservation is of no budget and can only
// hold what is covered.
type Reservation struct {
	mu         sync.Mutex // guards the fields below
	allocation Allocation
	over       bool
}

// Reserve returns a reservation of the user that holds nothing. It is nil if the budget
// is nil.
func (b *Budget) Reserve(u User) *Reservation {
	if b == nil {
		return nil
	}
	c := new(Reservation)
	c.Begin(b, u)
	return c
}

// Begin makes the zero Reservation one of the user, within a structure that has it as a
// field.
func (c *Reservation) Begin(b *Budget, u User) { c.allocation = b.Allocate(u) }

// Resize makes the reservation hold what size bytes need, as Allocation.Resize. If it
// cannot grow so far, it holds what it held. Making it smaller succeeds as long as it was
// not released.
func (c *Reservation) Resize(size int64) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return ErrOver
	}
	return c.allocation.Resize(size)
}

// Shrink makes the reservation hold what size bytes need, if it holds more.
func (c *Reservation) Shrink(size int64) {
	if size < c.Size() {
		_ = c.Resize(size) // what is over holds nothing
	}
}

// Another returns a reservation of the same user and budget that holds nothing, for what
// may outlive c, even if c is released already. It is nil if c is.
func (c *Reservation) Another() *Reservation {
	held := c.held()
	return held.budget.Reserve(held.user)
}

// Adopt makes c hold what other holds in place of what it held itself, and releases
// other, which is a reservation of the same user. If c is released already, nobody holds
// it any more.
func (c *Reservation) Adopt(other *Reservation) {
	if c == nil || other == nil {
		return
	}
	allocation := other.give()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		allocation.Release()
		return
	}
	c.allocation.Release()
	c.allocation = allocation
}

// give releases the reservation, and returns what it held for somebody else to hold.
func (c *Reservation) give() Allocation {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.allocation
	c.allocation, c.over = held.budget.Allocate(held.user), true
	return held
}

// User returns who holds the reservation, or held it. It is the zero User if c is nil.
func (c *Reservation) User() User { return c.held().user }

// Size returns how many bytes there are, as it was last said.
func (c *Reservation) Size() int64 { return c.held().size }

// held returns the allocation as it is now, to look at; the zero one if c is nil.
func (c *Reservation) held() (a Allocation) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		a = c.allocation
	}
	return a
}

// Release gives back all that the reservation holds, for good. Further calls do nothing.
func (c *Reservation) Release() {
	if c != nil {
		allocation := c.give()
		allocation.Release()
	}
}
