package legacy

import (
	"context"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// find returns the session that a request names, if this replica leads it, or if the
// message is at its home: it is about something that lives here, whoever leads. Otherwise
// the request is answered, by the replica that leads the session or with a refusal.
func (s *Service) find(x *exchange.Exchange, m *mcp.Message, body []byte, atHome bool) (l *sessions.Session) {
	t, refused := s.sessions.Of(x)
	switch {
	case refused != nil:
	case atHome:
		l, refused = s.sessions.AtHome(x.Context(), t, x.Caller)
		if refused == nil && s.sessions.Shared && mcp.MethodOf(m.Method).Asks {
			// or the answers of its client would not find who waits for them
			l, refused = s.sessions.Enter(x.Context(), t, x.Caller)
		}
	default:
		if l = s.route(x, t, m.ID,
			func(to replica.ID) forward.Outcome { return s.forwarder.Forward(x, to, m, body) }); l == nil {
			return nil
		}
	}
	if refused == nil {
		refused = checkRevision(x, l)
	}
	if x.Refuses(m.ID, refused) {
		return nil
	}
	return l
}

// route finds the replica that leads the session of a ticket. It returns the session if
// that is this one. Otherwise ask has the other do what is to be done, and the request is
// answered. A primary that is not reached is most likely about to be known as gone, and
// is waited for: clients do not send again what was refused.
func (s *Service) route(x *exchange.Exchange, t *ticket.Ticket, id mcp.ID,
	ask func(to replica.ID) forward.Outcome,
) *sessions.Session {
	var denied []replica.ID // each once
	until := time.Now().Add(forward.HoldTime)
	for {
		l, to, refused := s.sessions.Whose(x, t, denied)
		if x.Refuses(id, refused) {
			return nil
		}
		if l != nil {
			x.Reservation.TakeSlot()
			return l
		}
		switch ask(to) {
		case forward.Done, forward.Taken:
			if x.Status < http.StatusInternalServerError { // one that is full or stops need not lead it
				s.sessions.NoteLeader(t, to)
			}
			return nil
		case forward.Denied:
			s.sessions.NoteLeader(t, "")
			denied = append(denied, to)
		case forward.Unreached, forward.Lost:
			denied = nil
			if !s.forwarder.AwaitChange(x.Context(), until) {
				x.Refuse(id, exchange.ErrReplicas)
				return nil
			}
		}
	}
}

// noteChange has whoever waits look again: replicas have come, ended, or begun to drain.
func (s *Service) noteChange() {
	s.forwarder.NoteChange()
	pace.Signal(s.changed)
	s.streams.WakeAll() // those that wait for a replica that is gone
}

// untilOver calls do until ctx ends, and again after a panic.
func (s *Service) untilOver(ctx context.Context, do func()) {
	for !s.exchanges.Safely(ctx, do) && pace.Wait(ctx, time.Second) {
	}
}

// tellAll has streams at other replicas told of what is new: of lists that have changed,
// for example.
func (s *Service) tellAll() { s.sessions.Roster.Each(s.tellLater) }

// tryAgain tells what could not be told before, and makes the subscriptions that could
// not be made, until ctx ends.
func (s *Service) tryAgain(ctx context.Context) {
	pace.Every(ctx, streams.Heartbeat, func(context.Context) {
		s.resubscribeAll()
		s.tellAll()
	})
}
