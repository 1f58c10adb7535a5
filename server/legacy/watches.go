package legacy

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/notices"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// A subscription is at the replica that leads the session, and a fact of its record. So
// the next primary makes it again, and says that the resource may have changed meanwhile.

// resubscribeTime bounds how long it takes to make the subscriptions of a session again.
const resubscribeTime = time.Minute

// keepWatch has the record say whether the session is subscribed to a resource.
func (ss *directory) keepWatch(ctx context.Context, l *sessions.Session, uri string) {
	switch watched, kept := l.IsWatched(uri); {
	case !watched:
		ss.keep(ctx, l, sessions.WatchFact(uri), "")
	case kept:
		ss.keep(ctx, l, sessions.WatchFact(uri), uri)
	}
}

// resubscribe makes the subscriptions again that the replica had which led the session
// before. One that cannot be made now, because its server is down for example, is tried
// again at a later heartbeat. One that is refused for good stays in the record, for the
// next primary.
func (s *Service) resubscribe(ctx context.Context, l *sessions.Session, c gateway.Caller) {
	ctx, stop := context.WithTimeout(ctx, resubscribeTime)
	defer stop()
	defer l.EndResubscribing()
	for uri, tried := range l.BeginResubscribing() {
		params := mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)})
		told := s.subscribe(ctx, c, s.exchanges.IDs.Next(), l, params)
		switch {
		case told == nil:
			s.updated(l, uri, uri)
		case !tried: // or a server that stays down would fill the log
			s.exchanges.Log.WarnContext(ctx, "a subscription of a replica that is gone was not opened again", "error",
				told)
		}
		if told != nil && !isForGood(told) {
			l.Lose(uri)
		}
	}
}

// resubscribeAll tries again to make what could not be made.
func (s *Service) resubscribeAll() {
	s.sessions.roster.Each(func(l *sessions.Session) {
		if !l.IsLost() || s.streams.IsDraining() {
			return
		}
		if caller, ok := s.exchanges.Resolve(l.LastPrincipal()); ok {
			// one for each session
			s.background.begin(context.Background(), func(ctx context.Context) { s.resubscribe(ctx, l, caller) })
		}
	})
}

// isForGood tells whether a subscription is refused whenever it is tried, as far as
// anybody can tell: the resource is not there or does not tell of changes, or the caller
// may not have it.
func isForGood(told *mcp.Error) bool {
	return told.Code == mcp.CodeInvalidParams || told.Code == mcp.CodeForbidden
}

// unsubscribe ends a subscription of the session, if there is one.
func (s *Service) unsubscribe(ctx context.Context, l *sessions.Session, params mcp.Object) *mcp.Error {
	uri, refused := notices.URIOf(params.Value("uri"))
	if refused != nil {
		return refused.Told
	}
	l.DropWatch(uri)
	s.sessions.keepWatch(ctx, l, uri)
	return nil
}

// forgetWatches has records forget subscriptions, in a goroutine: others whose rights
// ended do not wait for that.
func (s *Service) forgetWatches(ctx context.Context, given []sessions.Revoked) {
	if len(given) == 0 || !s.sessions.shared {
		return
	}
	// one for each time that rights are judged, or that somebody subscribes
	s.background.begin(ctx, func(ctx context.Context) {
		for _, g := range given {
			s.sessions.keepWatch(ctx, g.Session, g.URI)
		}
	})
}
