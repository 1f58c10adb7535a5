package legacy

import (
	"context"
	"log/slog"
	"time"

	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// miss notes for the log why the session of a request is not found. The client is told
// nothing of that.
func miss(ctx context.Context, why string) *exchange.Refusal {
	if x := exchange.FromContext(ctx); x != nil {
		x.Missed = why
	}
	return exchange.ErrSession
}

// maxEvictionsShown bounds the lines of the log for one new session: a reload that lowers
// a limit ends many.
const maxEvictionsShown = 10

// tellEvicted logs which sessions were evicted for a new one, the one that was idle
// longest first. A new session evicts one, so there are at most as many lines as requests
// that open sessions, and a few more after a reload that lowers a limit.
func (ss *directory) tellEvicted(ctx context.Context, evicted []*sessions.Session) {
	for i, l := range evicted {
		if i == maxEvictionsShown {
			ss.logger.InfoContext(ctx, "more sessions evicted", slog.Int("sessions", len(evicted)-i))
			return
		}
		ss.logger.InfoContext(ctx, "session evicted", slog.String("session", l.ShortName()),
			slog.String("limit", l.EvictedBy),
			slog.Float64("idle_seconds", time.Since(l.IdleSince()).Seconds()))
	}
}
