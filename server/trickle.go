package server

import (
	"cmp"
	"context"
	"net/http"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
)

// trickle is the answer to one modern request: plain JSON for as long as it can be, and
// an event stream from the first notification on. A request that takes long becomes an
// event stream too, because load balancers cut connections that are silent.
type trickle struct {
	server *Server
	x      *exchange.Exchange
	alarm  *streams.Alarm // rings after Heartbeat; nil: no stream is possible, or the answer is finished

	mu     sync.Mutex      // guards the fields below, and the connection while the call is under way
	out    *streams.Stream // nil as long as the answer is not a stream
	place  *streams.Slot
	plain  bool // it is decided that the answer is no stream, or that nothing more is sent
	broken bool // ring panicked, and may have sent a part of something
}

// begin begins the answer to a request. t is new.
func (t *trickle) begin(s *Server, x *exchange.Exchange) {
	t.server, t.x, t.plain = s, x, !x.AcceptsStream
	if !t.plain {
		t.mu.Lock() // it may ring before the alarm is here
		defer t.mu.Unlock()
		t.alarm = s.alarms.Set(s.config.Heartbeat, t)
	}
}

// notify sends a notification. If the client accepts no stream, nothing is sent; if the
// client is gone, its context ends the call, unless it is one with a key, for which
// another may wait.
func (t *trickle) notify(_ context.Context, n mcp.Notification) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.openLocked() {
		return nil
	}
	t.alarm.Delay(t.server.config.Heartbeat)
	err := t.out.Send(sse.Event{Data: mcp.AppendRequest(nil, "", n.Method, n.Params)})
	if t.x.Key != nil {
		return nil // see above
	}
	return err
}

// Ring breaks the silence on the connection. After a panic nothing more is sent before
// the call is over.
func (t *trickle) Ring() {
	t.mu.Lock()
	defer t.mu.Unlock()
	whole := t.server.exchanges.Safely(t.x.Outliving(), func() {
		if t.openLocked() && t.out.Comment() == nil {
			t.alarm.Delay(t.server.config.Heartbeat)
		}
	})
	if !whole {
		t.broken, t.plain = true, true
	}
}

// abandonLocked gives up a stream in which ring panicked, and breaks its connection. If
// nothing was sent, the answer is plain.
func (t *trickle) abandonLocked() {
	if t.place != nil {
		t.place.Leave()
	}
	if t.x.Status != 0 {
		t.x.CutShort("")
	}
}

// openLocked makes the answer a stream, unless it is one. It is false if the answer must
// be plain.
func (t *trickle) openLocked() bool {
	if t.plain || t.out != nil {
		return !t.plain
	}
	place, refused := t.server.streams.TakeSlot(t.x, streams.KindPost)
	if refused != nil {
		t.plain = true
		return false
	}
	t.place = place
	t.out, _ = streams.Open(t.x) // if the client is gone, the next write fails too
	return true
}

// finish sends the result or the error, in the form that the answer has by now.
func (t *trickle) finish(ctx context.Context, a *exchange.Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.server.alarms.Stop(&t.alarm)
	if t.broken {
		t.abandonLocked()
	}
	if a.Err == nil && t.x.PrefersStream {
		t.openLocked()
	}
	t.plain = true
	switch {
	case t.out != nil:
		_ = t.out.SendMessage(t.server.exchanges.Payload(ctx, a, t.x.ID)) // the client may be gone
		streams.Finish(t.x)
		t.place.Leave()
	case a.Err != nil:
		t.server.exchanges.DelayLimited(t.x, a.Err)
		t.x.AnswerError(a.ID, a.Err, cmp.Or(a.Status, exchange.StatusOf(a.Err.Code, mcp.Modern)))
	default:
		t.x.WriteJSON(http.StatusOK, t.server.exchanges.Payload(ctx, a, t.x.ID)...)
	}
}

// give is finish for a message that is made already, which has that status if the answer
// is plain.
func (t *trickle) give(status int, message []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.server.alarms.Stop(&t.alarm)
	if t.broken {
		t.abandonLocked()
	}
	if status == http.StatusOK && t.x.PrefersStream {
		t.openLocked()
	}
	t.plain = true
	if t.out == nil {
		t.x.WriteJSON(status, message)
		return
	}
	_ = t.out.SendMessage(exchange.Payload{message}) // the client may be gone
	streams.Finish(t.x)
	t.place.Leave()
}
