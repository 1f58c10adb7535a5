package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// modern serves one message that carries its own metadata. It depends on nothing that came before.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
func (s *Server) modern(x *exchange, r *http.Request, m *mcp.Message) {
	if m.IsResponse() {
		x.refuse(m.ID, errResponse)
		return
	}
	if refused := s.checkModern(x, r.Header, m); refused != nil {
		x.refuse(m.ID, refused)
		return
	}
	switch {
	case m.IsNotification(): // none that a client may send means anything here: leaving is how it cancels
		x.writeStatus(http.StatusAccepted)
	case m.Method == mcp.MethodListen:
		s.listen(x, r, m)
	default:
		s.modernRequest(x, r, m)
	}
}

// modernRequest answers one request. The client's leaving cancels it.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/cancellation
func (s *Server) modernRequest(x *exchange, r *http.Request, m *mcp.Message) {
	ctx, c := s.calls.begin(r.Context(), m.ID)
	if c == nil {
		x.refuse(m.ID, errDraining)
		return
	}
	defer s.calls.finish(c)
	t := s.newTrickle(x)
	level, _ := mcp.LevelOf(x.meta.Text(mcp.MetaLogLevel)) // absent: none
	result, err := s.ask(ctx, x.caller, &gateway.Request{
		ID: x.id, Method: m.Method, Params: m.Params,
		Capabilities: mcp.CapabilitiesOf(x.meta.Text(mcp.MetaProtocolVersion), x.meta.Object(mcp.MetaClientCapabilities)),
		Client:       x.meta.Object(mcp.MetaClientInfo).Text("name"),
		LogLevel:     level,
		Tasks:        tasksOf(x),
		Notify:       t.notify,
	})
	a := answer{id: m.ID, result: s.modernise(m.Method, result), err: err}
	x.outcome = a.word()
	t.finish(&a)
}

// tasksOf returns the form of tasks that a client knows by its own word.
func tasksOf(x *exchange) mcp.Tasks {
	if mcp.DeclaresTasks(x.meta.Object(mcp.MetaClientCapabilities)) {
		return mcp.TasksGiven
	}
	return 0
}

// trickle is the answer to one request: plain JSON while it can be, an event stream from the first notification on. A
// request that takes long becomes one too, as load balancers cut what is silent.
type trickle struct {
	server *Server
	x      *exchange
	timer  *time.Timer

	mu    sync.Mutex // guards the fields below, and the connection while a call is in work
	out   *stream    // nil while the answer is to be plain
	place *place
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
	if !t.open() {
		return nil
	}
	t.timer.Reset(t.server.config.Heartbeat)
	return t.out.send(sse.Event{Data: mcp.AppendRequest(nil, "", n.Method, n.Params)})
}

// beat breaks the silence.
func (t *trickle) beat() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open() && t.out.comment() == nil {
		t.timer.Reset(t.server.config.Heartbeat)
	}
}

// open begins the stream unless it is open. It is false when there is to be none.
func (t *trickle) open() bool {
	if t.plain || t.out != nil {
		return !t.plain
	}
	place, refused := t.server.takePlace(t.x, "post")
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
		t.open()
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
