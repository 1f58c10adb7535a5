package gateway

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// cleanTime is about how long it takes to clean one byte of a result.
const cleanTime = 6 * time.Nanosecond

// slot is one of the slots for work that takes long, which a call takes at most once for one piece of work. The zero
// slot is not taken yet.
type slot struct{ leave func() }

// take waits for a slot by enter if the work that it is asked about takes long. Afterwards the slot is held until give.
func (s *slot) take(estimate time.Duration, enter func() (leave func(), err error)) (err error) {
	if s.leave != nil || estimate < fairqueue.Small {
		return nil
	}
	s.leave, err = enter()
	return err
}

// give gives the slot back if it was taken.
func (s *slot) give() {
	if s.leave != nil {
		s.leave()
	}
}

// argumentMeans are what the check of what the client sent along may use: memory of the caller, since a value that must
// be decoded takes up to fifty times the memory of its text, and a slot for what takes long.
type argumentMeans struct {
	gateway *Gateway
	call    *call
	ctx     context.Context //nolint:containedctx // of the check, which is over when it ends
	lease   share.Lease
	slot    slot
}

var _ schema.Means = (*argumentMeans)(nil)

// Memory implements schema.Means.
func (m *argumentMeans) Memory(bytes int64) error {
	err := m.lease.Resize(bytes)
	if err != nil && bytes > m.gateway.config.Memory.Most()-int64(m.call.params.Size()) { // the body is held beside it
		return share.ErrNever
	}
	return err
}

// Turn implements schema.Means. The wait ends when the call is revoked.
func (m *argumentMeans) Turn(estimate time.Duration) error {
	return m.slot.take(estimate, func() (leave func(), err error) {
		ctx, cancel := context.WithCancel(m.ctx)
		defer cancel()
		m.call.begun.endBy(endFunc(cancel))
		return m.gateway.config.Turns.Enter(ctx, m.call.user(), estimate)
	})
}

// check checks what the client sent along, within the means that the caller has.
func (g *Gateway) check(ctx context.Context, c *call) error {
	means := &c.means // and not a variable, which would be one more allocation of every call
	means.gateway, means.call, means.ctx, means.lease = g, c, ctx, g.config.Memory.Lease(c.user())
	defer means.lease.Release()
	defer means.slot.give()
	return c.method.check(c, means)
}

// user returns who holds what the call takes.
func (c *call) user() share.User { return share.User(c.caller.Principal.User()) }

// turnToClean waits until so many bytes that a server sent for the call may be cleaned. leave ends the turn. The error
// is why ctx has ended before.
func (g *Gateway) turnToClean(ctx context.Context, c *call, bytes int) (leave func(), err error) {
	return g.config.Turns.Finish(ctx, c.user(), time.Duration(bytes)*cleanTime)
}

// cleaned cleans a result by policy. That of a large one waits for its turn, however long: the call has been made.
func (g *Gateway) cleaned(ctx context.Context, c *call, result mcp.Object) (mcp.Object, error) {
	leave, err := g.turnToClean(ctx, c, result.Size())
	if err != nil {
		return mcp.Object{}, err
	}
	defer leave()
	policy := c.caller.Tenant.output
	clean := policy.Result
	if c.method.Name == mcp.MethodTasksGet || c.method.Name == mcp.MethodTasksCancel {
		clean = policy.Task
	}
	result, report, err := clean(result)
	g.count(c, report)
	return result, err
}
