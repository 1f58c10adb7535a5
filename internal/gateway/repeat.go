package gateway

import (
	"context"
	"time"
)

// Repeat judges a caller who asks for the answer of a call that was made before, perhaps
// by another replica with another config: by the tenants and the catalogue of this one.
// It puts on record that the answer is given, or refused. It makes no call and takes
// nothing of the limits. The error is the *mcp.Error that Handle would end with; a server
// that is down, or does not say what it offers to the caller, takes no right away.
func (g *Gateway) Repeat(ctx context.Context, caller Caller, r *Request) error {
	m := g.methods[r.Method]
	if m == nil {
		return errMethod
	}
	c, started := g.newCall(caller, r, m), time.Now()
	if g.config.Audit.Book() != nil {
		return g.unrecordable(ctx, c)
	}
	err := m.find(g, c)
	if isUnsent(err) {
		err = nil
	}
	c.outcome = outcomeRepeated
	failure := failureOf(err)
	record := c.record(ctx, failure, started)
	if !g.recorded(ctx, &record) {
		return failureOf(errUnrecorded).rpcErr
	}
	if failure.rpcErr == nil {
		return nil
	}
	g.config.Metrics.Refused(failure.kind, caller.Tenant.ID, failure.reason)
	return failure.rpcErr
}
