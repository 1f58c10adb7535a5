package gateway

import (
	"time"
)

// streamsRetry is how long a caller is told to wait if all places for streams are taken.
const streamsRetry = 5 * time.Second

// OpenStream takes one of the tenant's places for event streams, of which one user has at most half. kind is the label
// of the stream in metrics: get, post, listen or sse. closed gives the place back and is called once. The error is an
// *mcp.Error.
func (g *Gateway) OpenStream(c Caller, kind string) (closed func(), err error) {
	leave, err := enter(g.streams, c, c.Tenant.streams)
	if err != nil {
		return nil, noPlace(err, "DB-LIMIT-STREAMS", "event streams", "limits.streams", streamsRetry)
	}
	gone := g.config.Metrics.StreamOpened(c.Tenant.ID, kind)
	return func() { gone(); leave() }, nil
}
