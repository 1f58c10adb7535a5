package gateway

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/allot"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// streamsRetry is how long a caller is told to wait if all places for streams are taken.
const streamsRetry = 5 * time.Second

// OpenStream takes one of the tenant's places for event streams, of which one user has at most half. kind is the label
// of the stream in metrics: get, post, listen or sse. closed gives the place back and is called once. The error is an
// *mcp.Error.
func (g *Gateway) OpenStream(ctx context.Context, c Caller, kind string) (closed func(), err error) {
	user := share.User(c.Principal.User())
	if err := g.takePlace(ctx, allot.Streams, user, c.Tenant.streams); err != nil {
		return nil, noPlace(err, "DB-LIMIT-STREAMS", "event streams", "limits.streams", streamsRetry)
	}
	gone := g.config.Metrics.StreamOpened(c.Tenant.ID, kind)
	return func() { gone(); g.streams.Give(user, 1) }, nil
}
