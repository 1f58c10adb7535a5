package gateway

import (
	"time"

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
