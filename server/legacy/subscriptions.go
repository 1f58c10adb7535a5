package legacy

import (
	"cmp"
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/notices"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// updated notes that a resource, or a part of one, has changed; the subscription to uri
// said so. Until the client is told, further changes of it count as the same one.
func (s *Service) updated(l *sessions.Session, uri, part string) {
	if l.NoteUpdate(uri, part) {
		l.WakeStreams()
	}
}

// subscribe opens a subscription of the session, unless it is open already or about to
// be. It also returns how the desk has recorded a request that it refused.
// https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
func (s *Service) subscribe(ctx context.Context, c gateway.Caller, id string, l *sessions.Session,
	params mcp.Object,
) (outcome string, rpcErr *mcp.Error) {
	uri, refused := notices.URIOf(params.Value("uri"))
	if refused != nil {
		return "", refused.Err
	}
	w, mine := l.Reserve(uri)
	switch {
	case w == nil:
		return "", cmp.Or(lostToAnother(l), exchange.ErrSubscriptions.Err)
	case !mine:
		if pace.Await(ctx, w.Opened) != nil {
			return "", exchange.ErrCancelledCall
		}
		return "", cmp.Or(w.Err, lostToAnother(l))
	}
	request := &gateway.Request{ID: id, From: fromOf(ctx, l), Extensions: l.Client().Extensions}
	_, w.Err = s.exchanges.Guarded(ctx, func() (result mcp.Object, err error) {
		w.Subscription, err = s.desk.Subscribe(ctx, c, request, uri,
			func(part string) { s.updated(l, uri, part) })
		return result, err
	})
	if !l.FinishOpening(uri, w) && w.Err == nil {
		w.Subscription.Stop() // the client unsubscribed, or the session ended, while it was being opened
	}
	if w.Err == nil {
		s.keepWatch(ctx, l, uri)
	}
	if now, ok := s.exchanges.Resolve(c.Principal); ok { // rules may have changed while it was being opened
		s.forgetWatches(ctx, l.Reauthorize(now))
	}
	return w.Subscription.Outcome, cmp.Or(w.Err, lostToAnother(l))
}

// fromOf says for records where a request of the session came from.
func fromOf(ctx context.Context, l *sessions.Session) gateway.From {
	from := gateway.From{Session: l.ShortName()}
	if x := exchange.FromContext(ctx); x != nil {
		from.Remote = x.Remote
	}
	return from
}

// keepLists has the entry say what the client was told of lists, so that the next
// primary repeats nothing.
func (s *Service) keepLists(ctx context.Context, l *sessions.Session) {
	if text, due := l.ListsDue(); due {
		s.sessions.Keep(ctx, l, sessions.FactLists, text)
	}
}

// tellOnce notes that the client of a session is to be told of the task or elicitation
// with that id. The notice goes out on the stream of the session, if this replica leads
// it. It is told once at most: a client need not be told, and asks for the state of its
// tasks by itself.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#task-status-notification
func (s *Service) tellOnce(l *sessions.Session, id string, n mcp.Notification) {
	if l.NoteOnce(id, n.Method, mcp.AppendRequest(nil, "", n.Method, n.Params)) {
		l.WakeStreams()
	}
}

// opened notes that the client of a session is to be told that what its user was to do at
// some address is done.
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation
func (s *Service) opened(l *sessions.Session, id string) {
	params := mcp.NewObject(mcp.Member{Name: "elicitationId", Value: mcp.String(id)})
	s.tellOnce(l, id, mcp.Notification{Method: mcp.NotifyOpened, Params: params})
}

// resubscribeTime bounds how long it takes to make the subscriptions of a session again.
const resubscribeTime = time.Minute

// keepWatch has the entry say whether the session is subscribed to a resource.
func (s *Service) keepWatch(ctx context.Context, l *sessions.Session, uri string) {
	switch watched, stored := l.IsWatched(uri); {
	case !watched:
		s.sessions.Keep(ctx, l, sessions.WatchFact(uri), "")
	case stored:
		s.sessions.Keep(ctx, l, sessions.WatchFact(uri), uri)
	}
}

// resubscribe makes the subscriptions again that the replica had which led the session
// before, at the rate of calls if they are many. One that cannot be made now, because its
// server is down for example, is tried again at a later heartbeat. One that is refused
// for good stays in the entry, for the next primary.
func (s *Service) resubscribe(ctx context.Context, l *sessions.Session, c gateway.Caller) {
	ctx, stop := context.WithTimeout(ctx, resubscribeTime)
	defer stop()
	lost, end := l.BeginResubscribing()
	defer end()
	for _, uri := range lost {
		var rpcErr *mcp.Error
		params := mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)})
		tried, still := l.Lost(uri)
		for inVain := 0; still; inVain++ {
			_, rpcErr = s.subscribe(ctx, c, s.exchanges.IDs.Next(), l, params)
			if !exchange.AwaitRate(ctx, rpcErr, inVain) {
				break
			}
			_, still = l.Lost(uri)
		}
		switch {
		case !still: // the client has ended it meanwhile
			continue
		case rpcErr == nil:
			s.updated(l, uri, uri)
		case !tried: // or a server that stays down would fill the log
			s.exchanges.Log.WarnContext(ctx, "a subscription of a replica that is gone was not opened again",
				"error",
				rpcErr)
		}
		l.Resubscribed(uri, rpcErr != nil && !isForGood(rpcErr))
	}
}

// resubscribeAll tries again to make what could not be made.
func (s *Service) resubscribeAll() {
	s.sessions.Roster.Each(func(l *sessions.Session) {
		if l.IsLost() && !s.streams.IsDraining() {
			s.resubscribeLater(l)
		}
	})
}

// isForGood tells whether a subscription is refused whenever it is tried, as far as
// anybody can tell: the resource is not there or does not tell of changes, or the caller
// may not have it.
func isForGood(rpcErr *mcp.Error) bool {
	return rpcErr.Code == mcp.CodeInvalidParams || rpcErr.Code == mcp.CodeForbidden
}

// unsubscribe ends a subscription of the session, if there is one.
func (s *Service) unsubscribe(ctx context.Context, l *sessions.Session, params mcp.Object) *mcp.Error {
	uri, refused := notices.URIOf(params.Value("uri"))
	if refused != nil {
		return refused.Err
	}
	l.DropWatch(uri)
	s.keepWatch(ctx, l, uri)
	return lostToAnother(l)
}

// forgetWatches has entries forget subscriptions, in a goroutine: others whose rights
// ended do not wait for that.
func (s *Service) forgetWatches(ctx context.Context, given []sessions.Revoked) {
	if len(given) == 0 || !s.sessions.Shared {
		return
	}
	// one for each time that rights are judged, or that somebody subscribes
	s.background.begin(ctx, func(ctx context.Context) {
		for _, g := range given {
			s.keepWatch(ctx, g.Session, g.URI)
		}
	})
}

// lostToAnother returns what is told of a request that changes what is kept of a session,
// if another replica has taken the session over meanwhile: that one may not know of the
// change, so that the client is to ask for it again. It is nil if this replica leads the
// session still.
func lostToAnother(l *sessions.Session) *mcp.Error {
	if l.Leader().Here {
		return nil
	}
	return exchange.ErrReplicas.Err
}
