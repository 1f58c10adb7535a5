package legacy

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
)

// feed says what one connection gets: one stream of the log of a session, from one event
// on. It is the source of a flow.
type feed struct {
	session  *sessions.Session
	stream   string
	after    string        // id of the last event that the client has; "" for none
	event    string        // type of the events
	numbered bool          // the client is told the ids of events
	tells    bool          // notices of changed lists and resources go on this stream
	owns     bool          // the session ends with the stream
	slot     *streams.Slot // nil: the stream answers a POST, and something else ends it
	first    *sse.Event    // sent before all others; nil: none
	drains   bool          // it ends because the process stops, and goes on elsewhere

	server *Service // set by serveFeed, like the fields below
	flow   *streams.Flow
	mine   *sessions.Holder
	unkept bool // the log did not take a notice
}

var _ streams.Source = (*feed)(nil)

// serveFeed answers with what the log holds of a stream, and with what is added to it,
// until the stream, the session or the connection ends. It may return before that: see
// flow. Whatever the feed has is given back at its end.
func (s *Service) serveFeed(ctx context.Context, x *exchange.Exchange, f *feed) {
	f.server = s
	f.flow = s.streams.NewFlow(f, f.slot)
	f.flow.Serve(ctx, x)
}

// beginStream makes a stream known to the log, so that a client can resume from the very
// first id. It is refused if the session has ended, or if the caller has no memory for
// it. If lasting is false, the stream cannot be resumed, and the client must get no ids
// of it.
func (s *Service) beginStream(ctx context.Context, l *sessions.Session, stream string) (lasting bool,
	refused *exchange.Refusal,
) {
	lasting, err := s.config.Log.Begin(ctx, l.InLog(), stream)
	return lasting, ofLog(err, exchange.ErrSession)
}

// Open implements source: it takes the stream away from any connection that had it, and
// answers with its beginning. A stream that is over, and of which the client has all, is
// answered without content. Some clients resume a stream that ends without a result, as
// that of a cancelled call does. An event stream that ends at once would have them come
// again and again, or wait on a further stream that nobody closes.
// https://html.spec.whatwg.org/multipage/server-sent-events.html#concept-event-stream-reconnect
func (f *feed) Open(ctx context.Context, x *exchange.Exchange) (*streams.Stream, error) {
	log, in := f.server.config.Log, f.session.InLog()
	var err error
	f.mine, err = f.session.Hold(ctx, f.stream, f.flow)
	f.session.StreamOpened(f.stream)
	if err != nil {
		return nil, err
	}
	var left []eventlog.Event
	more, unknown := true, exchange.ErrSession // it has ended if a stream is not there that has just begun
	if err = log.Follow(ctx, in, f.flow); err == nil {
		left, more, err = log.Read(ctx, in, f.stream, f.after)
		if f.after != "" {
			unknown = exchange.ErrEvent
		}
	}
	if err != nil {
		x.Refuse("", ofLog(err, unknown))
		return nil, err
	}
	if f.slot != nil && !more && !slices.ContainsFunc(left, hasMessage) {
		x.WriteStatus(http.StatusNoContent)
		return nil, streams.ErrEnded
	}
	out, err := f.flow.Begin(x)
	if err == nil && f.first != nil {
		err = out.Send(*f.first)
		f.first = nil
	}
	return out, err
}

func hasMessage(e eventlog.Event) bool { return len(e.Data) > 0 }

// Step implements source.
func (f *feed) Step(ctx context.Context, out *streams.Stream) error {
	over := f.slot != nil && f.session.Stage() == sessions.Over
	switch {
	case f.mine.Lost.Load(), over && f.tells:
		return streams.ErrEnded
	case over && !f.session.HasNoJobs():
		return nil // the answer of its call comes first
	}
	if f.tells && !f.tell(ctx) {
		return streams.ErrEnded
	}
	if f.isHomeGone() {
		f.endLost(ctx)
	}
	f.drains = f.isDue()
	f.server.streams.Reading(f.flow)
	events, more, err := f.server.config.Log.Read(ctx, f.session.InLog(), f.stream, f.after)
	if ofLog(err, exchange.ErrSession) == exchange.ErrReplicas {
		if f.drains || over {
			return streams.ErrEnded // what there is comes elsewhere, or not any more
		}
		return nil // what there is comes when the log can be reached
	}
	if err != nil {
		return streams.ErrEnded
	}
	err = f.send(events, out)
	if f.owns && len(events) > 0 { // the stream cannot be resumed, so what was sent is not needed any more
		f.server.config.Log.Drop(ctx, f.session.InLog(), f.stream, f.after)
	}
	if err != nil {
		return err
	}
	if err := out.CanTake(0); err != nil {
		return err // the client has yet to take some of it
	}
	if f.tells && f.session.Leader().Here {
		f.session.Sent(f.stream)
		f.server.keepLists(ctx, f.session)
	}
	if !more {
		f.drains = false
	}
	if !more || f.drains || over && len(events) == 0 {
		return streams.ErrEnded
	}
	if over {
		f.flow.Wake()
	}
	return nil
}

// isDue tells whether the stream is to end because the process stops. Calls in flight
// still get their answers to the client; a session that ends with the stream takes no
// further ones.
func (f *feed) isDue() bool {
	if !f.flow.IsDue() {
		return false
	}
	if f.owns {
		f.session.Retire()
	}
	return f.session.HasNoJobs()
}

// send sends events, as long as no other connection takes the stream.
func (f *feed) send(events []eventlog.Event, out *streams.Stream) error {
	for _, e := range events {
		if f.mine.Lost.Load() {
			return streams.ErrEnded
		}
		if hasMessage(e) {
			if err := out.Send(sse.Event{
				Type: f.event, ID: e.ID, HasID: f.numbered && !e.LocalOnly,
				Data: e.Data,
			}); err != nil {
				return err
			}
		}
		f.after = e.ID
	}
	return nil
}

// SendEnd implements source: the end of the answer says all, but for when to resume a
// stream that goes on elsewhere. Clients of older revisions than 2025-11-25 take an event
// without data for a broken message.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
func (f *feed) SendEnd(out *streams.Stream) error {
	if !f.drains || !f.numbered || f.session.Client().Revision < mcp.Revision2511 {
		return nil
	}
	return out.Send(sse.Event{Retry: streams.Retry + rand.N(streams.RetryJitter)}) //nolint:gosec // it spreads clients, and guards nothing
}

// Close implements source.
func (f *feed) Close(ctx context.Context, revoked bool) {
	f.server.config.Log.Unfollow(f.session.InLog(), f.flow)
	if f.mine != nil {
		f.session.Release(f.mine)
	}
	if !f.owns {
		f.closeElsewhere(ctx)
		return
	}
	end := sessions.EndClosed
	if revoked {
		end = exchange.OutcomeRevoked
	}
	f.server.sessions.End(ctx, f.session, end)
}

// closeElsewhere tells the replica that leads the session that the stream is closed,
// unless another connection has it.
func (f *feed) closeElsewhere(ctx context.Context) {
	if f.slot == nil || f.mine == nil || f.mine.Lost.Load() && !f.mine.Untaken.Load() || !f.session.Shared {
		return
	}
	if at := f.session.Leader().At; at != "" {
		f.server.leave(ctx, f.session, f.stream, at)
	}
}

// tell puts notices on the stream: of lists that differ from what the client was last
// told of, and of changed resources that it may still read. It is false if the caller
// whose stream it is is not accepted any more, or the stream must end.
func (f *feed) tell(ctx context.Context) (open bool) {
	all, more, open := f.server.noticesFor(f.session, f.stream, f.slot.Principal)
	f.unkept = false
	for _, one := range all {
		open = f.put(ctx, one) && open
	}
	if more && !f.unkept { // what is not kept would be tried again without a pause
		f.flow.Wake()
	}
	return open
}

// put puts a notice into the log. It is false if the stream must end. If the log cannot
// be reached, the notice is to be sent as before, and the stream stays open for the time
// when it can.
func (f *feed) put(ctx context.Context, one sessions.Notice) bool {
	_, err := f.server.config.Log.Notify(ctx, f.session.InLog(), f.stream, f.session.Leader().Epoch, one.Text)
	if errors.Is(err, eventlog.ErrFenced) {
		f.server.sessions.Superseded(f.session)
		return false
	}
	if ofLog(err, exchange.ErrSession) != exchange.ErrReplicas {
		return err == nil
	}
	f.session.Unassign(f.stream, one.Method, one.URI)
	f.unkept = true
	return true
}

// isHomeGone tells whether the stream waits for an answer of a replica that is gone. It
// is asked whenever the flow is driven, which is when a replica ends, and at each
// heartbeat at least.
func (f *feed) isHomeGone() bool {
	home, _, ok := sessions.HomeOfStream(f.stream)
	return ok && !f.server.config.Others.IsThere(home) && !f.server.forwarder.IsUnsure()
}

// endLost ends a stream whose home is gone with an error for the request, or without a
// message if nobody knows its id. If the home has only lost touch, its answer may come
// first: then the stream ends with that, and otherwise the log takes the answer no more.
func (f *feed) endLost(ctx context.Context) {
	var message []byte
	if _, id, _ := sessions.HomeOfStream(f.stream); id != "" {
		message = mcp.AppendError(nil, id, exchange.ErrHomeGone)
	}
	if _, err := f.server.config.Log.Append(ctx, f.session.InLog(), f.stream, message, true); err != nil {
		return // at the next heartbeat again
	}
	f.server.config.Metrics.Refused("unavailable", f.session.User.TenantID, exchange.ErrHomeGone.StableCode())
}
