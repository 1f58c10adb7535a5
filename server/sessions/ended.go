package sessions

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// How sessions end, for the log.
const (
	EndEvicted = "evicted" // for a new one, at the limit of its user or tenant
	EndIdle    = "idle"
	EndExpired = "expired" // at its greatest age
	EndClosed  = "ended"   // by its client
)

// Why a session is not found that is not known to have ended, for the log.
const (
	LostUnreadable = "unreadable" // the id is not one of this gateway, or was sealed with a key that is gone
	LostForeign    = "foreign"    // it is another caller's
	LostRestart    = "restarted"  // another process opened it: before a restart, or another replica
	LostForgotten  = "forgotten"  // it ended long ago, or at another replica
)

// Miss notes for the log why the session of a request is not found. The client is told
// nothing of that.
func Miss(ctx context.Context, why string) *exchange.Refusal {
	if x := exchange.FromContext(ctx); x != nil {
		x.Missed = why
	}
	return exchange.ErrSession
}
