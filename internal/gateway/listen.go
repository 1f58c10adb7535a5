package gateway

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// streamsRetry is when a caller who found all streams taken may come back.
const streamsRetry = 5 * time.Second

// OpenStream takes one of the places for event streams, of which one user has half of the tenant's. kind is its label:
// get, post, listen, sse. closed gives the place back and is called once. The error is an *mcp.Error.
func (g *Gateway) OpenStream(c Caller, kind string) (closed func(), err error) {
	leave, ok := enter(g.streams, c, c.Tenant.streams)
	if !ok {
		return nil, mcp.Stable(mcp.CodeLimited, "DB-LIMIT-STREAMS", "Too many event streams are open").After(streamsRetry)
	}
	gone := g.config.Metrics.StreamOpened(c.Tenant.ID, kind)
	return func() { gone(); leave() }, nil
}

// Refuse records a refusal at the door: a failed login, a bad origin, a limit. The refusals that a sum stands for were
// counted one by one.
func (g *Gateway) Refuse(ctx context.Context, r audit.Record) {
	if r.Count == 0 {
		g.config.Metrics.Refused(r.Outcome, r.TenantID, r.Reason)
	}
	if err := g.config.Audit.Write(&r); err != nil { // it is refused already
		g.config.Logger.DebugContext(ctx, "refusal not on record", "request_id", r.RequestID, "error", err)
	}
}
