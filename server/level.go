package server

import (
	"context"
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// setLevel sets how grave a log message must be for the client of the session to get it.
// https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#setting-log-level
func (s *Server) setLevel(ctx context.Context, l *live, params mcp.Object) *mcp.Error {
	name := params.Text("level")
	level, ok := mcp.LevelOf(name)
	if !ok {
		return errLevel.told
	}
	if l.shared {
		if told := s.spreadLevel(ctx, l, name); told != nil {
			return told
		}
	}
	l.wantLogs(level)
	return nil
}

// spreadLevel has the level hold at all replicas: the log keeps it for those that have yet to hear of the session, and the
// others are told. If it cannot be kept, nothing is changed. If not all others were reached, the level holds where it is
// known, and at the others from when they hear of it; the client may set it again.
func (s *Server) spreadLevel(ctx context.Context, l *live, name string) *mcp.Error {
	switch err := s.config.Log.Keep(ctx, l.inLog(), factLevel, name); {
	case errors.Is(err, session.ErrUnknown):
		return errGone
	case err != nil:
		return errReplicas.told
	}
	if s.config.Others.Tell(ctx, l.word(kindLevel, []byte(name)...)) != nil {
		l.learn(map[string]string{factLevel: name})
		return errReplicas.told
	}
	return nil
}

func (l *live) wantLogs(level mcp.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.level = level
}
