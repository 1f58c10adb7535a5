package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// trickle is the answer to one request: plain JSON while it can be, an event stream from the first notification on. A
// request that takes long becomes one too, as load balancers cut what is silent.
type trickle struct {
	server *Server
	x      *exchange
	timer  *time.Timer

	mu    sync.Mutex // guards the fields below, and the connection while a call is in work
	out   *stream    // nil while the answer is to be plain
	place *streamPlace
	plain bool // it is decided: no stream, or nothing more to send
}

func (s *Server) newTrickle(x *exchange) *trickle {
	t := &trickle{server: s, x: x, plain: !x.acceptsStream}
	if !t.plain {
		t.timer = time.AfterFunc(s.config.Heartbeat, t.beat)
	}
	return t
}

// notify sends a notification. It gives up silently on a client that takes no stream; a client that is gone ends the
// call through its context.
func (t *trickle) notify(_ context.Context, n mcp.Notification) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.openLocked() {
		return nil
	}
	t.timer.Reset(t.server.config.Heartbeat)
	return t.out.send(sse.Event{Data: mcp.AppendRequest(nil, "", n.Method, n.Params)})
}

// beat breaks the silence.
func (t *trickle) beat() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.openLocked() && t.out.comment() == nil {
		t.timer.Reset(t.server.config.Heartbeat)
	}
}

// openLocked begins the stream unless it is open. It is false when there is to be none.
func (t *trickle) openLocked() bool {
	if t.plain || t.out != nil {
		return !t.plain
	}
	place, refused := t.server.takeStreamPlace(t.x, "post")
	if refused != nil {
		t.plain = true
		return false
	}
	t.place = place
	t.out, _ = openStream(t.x) // when the client is gone, the next write says so too
	return true
}

// finish gives the answer.
func (t *trickle) finish(a *answer) {
	if t.timer != nil {
		t.timer.Stop()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a.err == nil && t.x.prefersStream {
		t.openLocked()
	}
	t.plain = true
	switch {
	case t.out != nil:
		_ = t.out.send(sse.Event{Data: a.message(t.x.id)}) // the client may be gone
		t.out.close()
		t.place.leave()
	case a.err != nil:
		t.x.answerError(a.id, a.err, statusOf(a.err.Code, mcp.Modern))
	default:
		t.x.writeJSON(http.StatusOK, a.message(t.x.id))
	}
}
