package server

import (
	"context"
	"log/slog"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

// A token is checked when a request comes, but what the request opens may last for hours.
// So whenever keys, issuers, tenants or rules have changed, everything that lasts is
// judged again:
//
//	Reauthorize ──▶ Run ──▶ reauthorize ──▶ jobs      requests in work: cancelled
//	 (any time)   (one at a time)    ├──▶ sessions  ended with all that they have; of the others, subscriptions
//	                                 ├──▶ streams   ended in the way of their era
//	                                 └──▶ desk      calls by their items, also those that wait for answers
//
// Each of these owners knows what it has open and how to end it; here it is only decided
// whether it may stay. A request whose token was checked before a change may open
// something after it was looked at. Therefore the door counts how often all was judged,
// each request remembers the count from before its token was checked, and what is opened
// under another count is judged at once (IsOutdated).

// Reauthorize judges again, soon and in the background, whatever callers have open. It is
// called after keys, issuers, tenants or rules have changed, from any goroutine. It does
// not wait. Calls that come faster than it takes to judge count as one.
func (s *Server) Reauthorize() {
	pace.Signal(s.again)
}

// reauthorize ends everything that is open for callers who could not open it any more.
func (s *Server) reauthorize(ctx context.Context) {
	s.exchanges.Reauthorized.Add(1)
	// Requests go first: one that is cancelled cannot let its source keep a call open
	// unseen (see gateway.hold), and is recorded as revoked and not as a call whose
	// session has ended.
	resolve := func(p auth.Principal) (caller gateway.Caller, ok bool) {
		// After a panic it is false: who cannot be judged keeps nothing open, and all
		// others are judged.
		s.exchanges.Safely(ctx, func() { caller, ok = s.exchanges.Resolve(p) })
		return caller, ok
	}
	accepts := func(p auth.Principal) bool {
		_, ok := resolve(p)
		return ok
	}
	s.exchanges.Jobs.Reauthorize(accepts)
	sessions := s.legacy.Reauthorize(ctx, resolve, s.config.Recheck)
	streams := s.streams.Reauthorize(accepts)
	calls := s.desk.Reauthorize(resolve)
	if sessions+streams+calls > 0 {
		s.exchanges.Log.InfoContext(ctx, "revoked what its callers may not have any more",
			slog.Int("sessions", sessions),
			slog.Int("streams", streams), slog.Int("calls", calls))
	}
}
