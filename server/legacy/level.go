package legacy

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// setLevel sets how grave a log message must be for the client of the session to get it.
// https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#setting-log-level
func (s *Service) setLevel(ctx context.Context, l *sessions.Session, params mcp.Object) *mcp.Error {
	name := params.Text("level")
	level, ok := mcp.LevelOf(name)
	if !ok {
		return exchange.ErrLevel.Err
	}
	l.WantLogs(level)
	s.sessions.Keep(ctx, l, sessions.FactLevel, name)
	return lostToAnother(l)
}
