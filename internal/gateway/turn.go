package gateway

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// slot is one of the slots for work that takes long, which a call takes at most once for
// one piece of work. The zero slot is not taken yet.
type slot struct{ release func() }

// take waits for a slot by enter if the work that it is asked about takes long.
// Afterwards the slot is held until give.
func (s *slot) take(estimate time.Duration, enter func() (release func(), err error)) (err error) {
	if s.release != nil || estimate < fairqueue.Small {
		return nil
	}
	s.release, err = enter()
	return err
}

// give gives the slot back if it was taken.
func (s *slot) give() {
	if s.release != nil {
		s.release()
	}
}

// argumentBudget is what the check of what the client sent along may use: memory of the
// caller, since a decoded value takes up to fifty times the memory of its text, and a
// slot for what takes long.
type argumentBudget struct {
	call       *call
	ctx        context.Context //nolint:containedctx // of the check, which is over when it ends
	allocation share.Allocation
	slot       slot
}

var _ schema.Budget = (*argumentBudget)(nil)

// Memory implements schema.Budget.
func (m *argumentBudget) Memory(bytes int64) error {
	err := m.allocation.Resize(bytes)
	// the body is held beside it
	if err != nil && bytes > m.call.gateway.config.Memory.Most()-int64(m.call.params.Size()) {
		return share.ErrNever
	}
	return err
}

// Turn implements schema.Budget.
func (m *argumentBudget) Turn(estimate time.Duration) error {
	return m.slot.take(estimate, func() (release func(), err error) {
		defer since(time.Now(), &m.call.request.Waited.Queue)
		return m.call.gateway.config.Turns.Enter(m.ctx, m.call.user(), estimate)
	})
}
