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

// entering is one of the methods of fairqueue.Queue that wait for a slot.
type entering func(ctx context.Context, u share.User, estimate time.Duration) (leave func(), err error)

// turnBy returns a function that waits for a slot for the caller if the work that it is asked about takes long. A slot
// is taken once and then held until leave is called, which must be done in any case.
func turnBy(ctx context.Context, c *call, enter entering) (turn func(estimate time.Duration) error, leave func()) {
	var held func()
	turn = func(estimate time.Duration) error {
		if held != nil || estimate < fairqueue.Small {
			return nil
		}
		var err error
		held, err = enter(ctx, share.User(c.caller.Principal.User()), estimate)
		return err
	}
	return turn, func() {
		if held != nil {
			held()
		}
	}
}

// check checks what the client sent along, within the memory that the caller may have: if a value must be decoded for
// that, it takes up to fifty times the memory of its text. What takes long waits for its turn.
func (g *Gateway) check(ctx context.Context, c *call) error {
	lease := g.config.Memory.Lease(share.User(c.caller.Principal.User()))
	defer lease.Release()
	turn, leave := turnBy(ctx, c, func(ctx context.Context, u share.User, estimate time.Duration) (leave func(), err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		c.begun.endBy(cancel) // the wait may be long
		return g.config.Turns.Enter(ctx, u, estimate)
	})
	defer leave()
	hold := func(bytes int64) error {
		err := lease.Resize(bytes)
		if err != nil && bytes > g.config.Memory.Most()-int64(c.params.Size()) { // the body is held beside it
			return share.ErrNever
		}
		return err
	}
	return c.method.check(c, schema.Means{Memory: hold, Turn: turn})
}

// turnToClean waits until so many bytes that a server sent for the call may be cleaned. leave ends the turn. The error
// is why ctx has ended before.
func (g *Gateway) turnToClean(ctx context.Context, c *call, bytes int) (leave func(), err error) {
	return g.config.Turns.Finish(ctx, share.User(c.caller.Principal.User()), time.Duration(bytes)*cleanTime)
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
