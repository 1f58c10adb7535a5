package server

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// feed says what one connection gets: one stream of the log of a session, from one event on.
type feed struct {
	session   *live
	stream    string
	after     string // id of the last event that the client has; "" for none
	event     string // type of the events
	numbered  bool   // the client is told the ids of events
	tells     bool   // notices of changed lists and resources go on this stream
	principal auth.Principal
	expiry    time.Time       // of the token; zero: something else ends the stream
	revoked   <-chan struct{} // closed when the caller is not accepted any more; nil: something else ends the stream
	first     *sse.Event      // sent before all others; nil: none
}

// follower sends a feed to one connection. It lives on the heap, and all work is done in methods that return before the
// follower waits, because an idle stream keeps the stack of its goroutine as large as it once grew.
type follower struct {
	*feed
	server *Server
	out    *stream
	mine   *holder

	silence  *time.Timer
	over     *time.Timer     // runs out after expiry; nil: something else ends the stream
	draining <-chan struct{} // of the server: closed when streams must end; nil once this follower knows
	calm     <-chan struct{} // while draining: closed when no call is in flight
	more     <-chan struct{} // closed when the log has more
	changed  <-chan struct{} // closed when lists may have changed
	stirring <-chan struct{} // closed when a resource changed
	last     bool            // the stream ends after what the log has now
}

// serveFeed answers with what the log holds of a stream, and with what is added to it, until the stream, the session or
// the connection ends. An idle stream costs one goroutine and two timers.
func (s *Server) serveFeed(ctx context.Context, x *exchange, f *feed) {
	w := s.newFollower(f)
	defer w.close()
	for more := w.begin(ctx, x); more; more = w.deliver(ctx) && w.wait(ctx) {
	}
}

// beginStream makes a stream known to the log, so that a client can resume from the very first id. It is refused if the
// session has ended, or if the caller has no memory for it.
func (s *Server) beginStream(ctx context.Context, l *live, stream string) *refusal {
	_, _, err := s.config.Log.Read(ctx, l.inLog(), stream, "")
	if refused := ofMemory(err); err == nil || refused != nil {
		return refused
	}
	return errSession
}

func (s *Server) newFollower(f *feed) *follower {
	w := &follower{feed: f, server: s, draining: s.draining, silence: time.NewTimer(s.config.Heartbeat)}
	if !f.expiry.IsZero() {
		w.over = time.NewTimer(time.Until(f.expiry) + expiryLeeway)
	}
	return w
}

// begin takes the stream away from any connection that had it, and answers with its beginning. It is false if the
// client is gone.
func (w *follower) begin(ctx context.Context, x *exchange) bool {
	var err error
	if w.mine, err = w.session.hold(ctx, w.stream); err != nil {
		return false
	}
	if _, _, err = w.server.config.Log.Read(ctx, w.session.inLog(), w.stream, w.after); err != nil {
		return false
	}
	if w.out, err = openStream(x); err != nil {
		return false
	}
	return w.first == nil || w.out.send(*w.first) == nil
}

func (w *follower) close() {
	w.silence.Stop()
	if w.over != nil {
		w.over.Stop()
	}
	if w.out != nil {
		w.out.close()
	}
	w.session.release(w.stream, w.mine)
}

// deliver sends everything that there is now. It is false if nothing can follow.
func (w *follower) deliver(ctx context.Context) bool {
	if w.tells && !w.tell(ctx) {
		return false
	}
	events, more, err := w.server.config.Log.Read(ctx, w.session.inLog(), w.stream, w.after)
	if err != nil || !w.send(events) {
		return false
	}
	if w.tells {
		w.session.sent(w.stream)
	}
	if more == nil || w.last {
		return false
	}
	w.more = more
	return true
}

// wait returns when there may be something to send. It is false if nothing can follow.
func (w *follower) wait(ctx context.Context) bool {
	var over <-chan time.Time
	if w.over != nil {
		over = w.over.C
	}
	select {
	case <-w.more:
	case <-w.changed:
	case <-w.stirring:
	case <-w.silence.C:
		return w.breakSilence()
	case <-w.draining: // calls in flight still get their answers to the client
		w.draining, w.calm = nil, w.session.calmed()
	case <-w.calm:
		w.last = true
	case <-over:
		return false
	case <-w.revoked:
		return false
	case <-w.mine.lost:
		return false
	case <-w.session.ended:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

func (w *follower) breakSilence() bool {
	w.silence.Reset(w.server.config.Heartbeat)
	return w.out.comment() == nil
}

// send sends events, as long as no other connection takes the stream. It is false if nothing can follow.
func (w *follower) send(events []session.Event) bool {
	for _, e := range events {
		select {
		case <-w.mine.lost:
			return false
		default:
		}
		if len(e.Data) > 0 && w.out.send(sse.Event{Type: w.event, ID: e.ID, HasID: w.numbered, Data: e.Data}) != nil {
			return false
		}
		w.after = e.ID
		if e.Last {
			return false
		}
		w.silence.Reset(w.server.config.Heartbeat)
	}
	return true
}

// tell puts notices on the stream: of lists that differ from what the client was last told of, and of changed resources
// that it may still read. It is false if the caller whose stream it is is not accepted any more.
func (w *follower) tell(ctx context.Context) bool {
	s := w.server
	w.changed, w.stirring = s.catalogue.Changed(), w.session.stirring()
	caller, ok := s.resolve(w.principal)
	if !ok {
		return false
	}
	if !w.session.isReady() {
		return true
	}
	for _, method := range w.session.claim(s.catalogue.Lists(caller), w.stream) {
		if !w.put(ctx, method, mcp.Object{}) {
			return false
		}
	}
	uris, more := w.session.claimUpdates(w.stream)
	if more {
		stirred := make(chan struct{})
		close(stirred)
		w.stirring = stirred
	}
	for _, uri := range uris {
		params := mcp.NewObject(mcp.Member{Name: "uri", Value: mcp.String(uri)})
		if s.resources.Reads(caller, uri) && !w.put(ctx, mcp.NotifyResourceUpdated, params) {
			return false
		}
	}
	return true
}

func (w *follower) put(ctx context.Context, method string, params mcp.Object) bool {
	notice := mcp.AppendRequest(nil, "", method, params)
	_, err := w.server.config.Log.Append(ctx, w.session.inLog(), w.stream, notice, false)
	return err == nil
}
