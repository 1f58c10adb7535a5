package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// cancelStream returns the name of the stream of a session's log on which another replica cancels a job of the session.
func cancelStream(id mcp.ID) string {
	digest := sha256.Sum256([]byte(id))
	return "x" + hex.EncodeToString(digest[:16])
}

// cancelElsewhere cancels a job of the session that may be running on another replica.
func (s *Server) cancelElsewhere(ctx context.Context, l *live, id mcp.ID) {
	stream := cancelStream(id)
	if _, err := s.config.Log.Find(ctx, l.inLog(), session.FirstID(stream)); err != nil {
		return // nobody has such a call
	}
	_, _ = s.config.Log.Append(ctx, l.inLog(), stream, nil, true) // it may have been cancelled before
}

// heed cancels the job if another replica was told to, and ends the session if it ended on another replica. It returns
// when the job is over.
func (s *Server) heed(ctx context.Context, l *live, j *job) {
	stream := cancelStream(j.id)
	// What stands there already meant an earlier call with the same id, and then nothing follows.
	_, more, err := s.config.Log.Read(ctx, l.inLog(), stream, "")
	for err == nil && more != nil {
		if s.awaitMore(ctx, more) != nil {
			return
		}
		var events []session.Event
		if events, more, err = s.config.Log.Read(ctx, l.inLog(), stream, ""); len(events) > 0 {
			j.life.End(errCancelled)
		}
	}
	if _, err := s.config.Log.Kept(ctx, l.inLog(), keptLevel); errors.Is(err, session.ErrUnknown) {
		s.sessions.end(ctx, l, endClosed)
	}
}
