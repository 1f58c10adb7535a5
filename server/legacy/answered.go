package legacy

import (
	"context"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// answered takes an answer of the client to a question that was asked in its session, on
// this replica or another. An answer to anything else is dropped, and so is a second
// answer. If it is refused, the client may send it again.
func (s *Service) answered(ctx context.Context, x *exchange.Exchange, l *sessions.Session,
	m *mcp.Message,
) *exchange.Refusal {
	id, _ := mcp.RawJSON(m.ID).Text()
	home, ok := forward.HomeOf(id)
	if !ok {
		return nil
	}
	message := mcp.AppendResult(nil, m.ID, m.Result) // a copy, so that the body of the request is not kept
	if m.Err != nil {
		message = mcp.AppendError(nil, m.ID, m.Err)
	}
	switch {
	case home == s.config.Others.Self():
		return exchange.RefusalOfMemory(l.Take(id, message))
	case l.Shared && s.forwarder.Ask(ctx, home, forward.RequestOf(x, message)) != http.StatusAccepted:
		return exchange.ErrReplicas // the first answer counts, so the client may send it again
	}
	return nil
}
