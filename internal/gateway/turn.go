package gateway

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// turn is that of the check of one value, which takes a slot for work that takes long at
// most once.
type turn struct {
	call *call
	ctx  context.Context //nolint:containedctx // of the check, which is over when it ends
	// waits for the slot, in one of the ways that a Queue has
	enter   func(*fairqueue.Queue, context.Context, share.User, time.Duration) (release func(), err error)
	release func() // gives the slot back; nil: none was taken
}

// Turn implements schema.Budget.
func (t *turn) Turn(estimate time.Duration) (err error) {
	if t.release != nil || estimate < fairqueue.Small {
		return nil
	}
	defer since(time.Now(), &t.call.request.Waited.Queue)
	t.release, err = t.enter(t.call.gateway.config.Turns, t.ctx, t.call.user(), estimate)
	return err
}

// end ends the turn.
func (t *turn) end() {
	if t.release != nil {
		t.release()
	}
}

// argumentBudget is what the check of what the client sent along may use: memory of the
// caller, since a decoded value takes up to fifty times the memory of its text, and a
// slot for what takes long.
type argumentBudget struct {
	turn
	allocation share.Allocation
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
