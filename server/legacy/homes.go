package legacy

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// isHomeGone tells whether the stream waits for an answer of a replica that is gone. It
// is asked whenever the flow is driven, which is when a replica ends, and at each
// heartbeat at least.
func (f *feed) isHomeGone() bool {
	home, _, ok := sessions.HomeOfStream(f.stream)
	return ok && !f.server.config.Others.IsThere(home) && !f.server.forwarder.IsUnsure()
}

// endLost ends a stream whose home is gone with an error for the request, or without a
// message if nobody knows its id. If the home has only lost touch, its answer may come
// first: then the stream ends with that, and otherwise the log takes the answer no more.
func (f *feed) endLost(ctx context.Context) {
	var message []byte
	if _, id, _ := sessions.HomeOfStream(f.stream); id != "" {
		message = mcp.AppendError(nil, id, exchange.ErrHomeGone)
	}
	if _, err := f.server.config.Log.Append(ctx, f.session.InLog(), f.stream, message, true); err != nil {
		return // at the next heartbeat again
	}
	f.server.config.Metrics.Refused("unavailable", f.session.User.TenantID, exchange.ErrHomeGone.StableCode())
}
