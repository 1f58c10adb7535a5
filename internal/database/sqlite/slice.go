package sqlite

import (
	"context"
	"runtime"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// sliceTime is how long a query keeps a processor busy before it gives its slot to whose
// turn it is.
const sliceTime = 2 * time.Millisecond

// busyTime is how long a query waits, all in all, for other programs that write.
const busyTime = 2 * time.Second

// slice is the context that SQLite asks every thousand steps whether it is to go on. When
// the query has kept its slot for sliceTime it stands in line again, so that a query
// without an end takes one slot at a time, in turn with all others. It belongs to the
// goroutine of the query.
type slice struct {
	context.Context //nolint:containedctx // it is one

	turns  *fairqueue.Queue
	user   share.User
	give   func() // gives the slot back; nil: there is none
	began  time.Time
	rested time.Duration
}

// enter waits for a slot.
func (s *slice) enter() (err error) {
	s.give, err = s.turns.Finish(s.Context, s.user, sliceTime)
	s.began = time.Now()
	return err
}

// finish gives the slot back.
func (s *slice) finish() {
	if s.give != nil {
		s.give()
		s.give = nil
	}
}

// Err implements context.Context.
func (s *slice) Err() error {
	if err := s.Context.Err(); err != nil || s.give == nil || time.Since(s.began) < sliceTime {
		return err
	}
	s.finish()
	runtime.Gosched() // what is short has waited for this processor for a slice at most
	return s.enter()
}

// rest waits, without a slot, for another program that writes. It returns whether to try
// again.
func (s *slice) rest(context.Context, int) (retry bool) {
	if s.rested >= busyTime || s.give == nil {
		return false
	}
	s.finish()
	s.rested += retryPause
	_ = pace.Wait(s.Context, retryPause) // enter says if it has ended
	return s.enter() == nil
}
