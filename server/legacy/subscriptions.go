package legacy

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
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
// be.
// https://modelcontextprotocol.io/specification/2025-11-25/server/resources#subscriptions
func (s *Service) subscribe(ctx context.Context, c gateway.Caller, id string, l *sessions.Session,
	params mcp.Object,
) *mcp.Error {
	uri, refused := notices.URIOf(params.Value("uri"))
	if refused != nil {
		return refused.Told
	}
	w, mine := l.Reserve(uri)
	switch {
	case w == nil:
		return exchange.ErrSubscriptions.Told
	case !mine:
		select {
		case <-w.Opened:
			return w.Told
		case <-ctx.Done():
			return exchange.ErrGone
		}
	}
	_, w.Told = s.exchanges.Guarded(ctx, func() (result mcp.Object, err error) {
		w.Subscription, err = s.desk.Subscribe(ctx, c, id, uri, func(part string) { s.updated(l, uri, part) })
		return result, err
	})
	if !l.FinishOpening(uri, w) && w.Told == nil {
		w.Subscription.Stop() // the client unsubscribed, or the session ended, while it was being opened
	}
	if w.Told == nil {
		s.sessions.keepWatch(ctx, l, uri)
	}
	if now, ok := s.exchanges.Resolve(c.Principal); ok { // rules may have changed while it was being opened
		s.forgetWatches(ctx, l.Judge(now))
	}
	return w.Told
}

// keepLists has the record say what the client was told of lists, so that the next
// primary repeats nothing.
func (s *Service) keepLists(ctx context.Context, l *sessions.Session) {
	if text, due := l.ListsDue(); due {
		s.sessions.keep(ctx, l, sessions.FactLists, text)
	}
}

// taskChanged notes that the client of a session is to be told of a task. The notice goes
// out on the stream of the session, if this replica leads it. It is told once at most: a
// client need not be told, and asks for the state of its tasks by itself.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#task-status-notification
func (s *Service) taskChanged(l *sessions.Session, id string, n mcp.Notification) {
	if l.NoteTask(id, mcp.AppendRequest(nil, "", n.Method, n.Params)) {
		l.WakeStreams()
	}
}
