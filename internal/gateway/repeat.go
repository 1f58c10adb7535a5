package gateway

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
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
	_, err := g.audited(func(_ context.Context, c *call) (mcp.Object, error) {
		c.outcome = outcomeRepeated
		err := m.find(g, c)
		if isUnsent(err) {
			return mcp.Object{}, nil
		}
		if failure := failureOf(err); failure.rpcErr != nil {
			g.config.Metrics.Refused(failure.kind, caller.Tenant.ID, failure.reason)
		}
		return mcp.Object{}, err
	})(ctx, g.newCall(caller, r, m))
	return err
}
