package server

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/once"
)

// takeOff claims the id of a call for this replica, so that a copy which a load balancer sent to another one does not run
// too. It is nil where nothing is to be claimed: the session lives here alone, or the request has no effect that could
// come twice. The claim is made while the desk checks the call, so that it costs the call no time unless Redis takes
// longer than that. Copies that come to the same replica are found by live.enter.
func (s *Server) takeOff(ctx context.Context, l *live, m *mcp.Message) *once.Flight {
	if s.config.Flights == nil || !l.shared || m.Method != mcp.MethodToolsCall {
		return nil
	}
	return s.config.Flights.Begin(context.WithoutCancel(ctx), l.user.TenantID, l.name, string(m.ID))
}

// copied returns an error if a copy of the call runs at another replica.
func copied(flight *once.Flight) error {
	if flight.Taken() {
		return errIDInUse.told
	}
	return nil
}
