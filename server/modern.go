package server

import (
	"context"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/lowering"
)

// modern answers one message that carries its own metadata. Nothing that came before
// matters for it.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
func (s *Server) modern(x *exchange.Exchange, r *http.Request, m *mcp.Message) {
	if m.IsResponse() {
		x.Refuse(m.ID, exchange.ErrResponse)
		return
	}
	if refused := s.checkModern(x, r.Header, m); refused != nil {
		x.Refuse(m.ID, refused)
		return
	}
	switch {
	case m.IsNotification(): // no notification of a client has a meaning here: it cancels a request by leaving
		x.WriteStatus(http.StatusAccepted)
	case m.Method == mcp.MethodListen:
		s.listen(x, r, m)
	case x.Key != nil:
		s.keyedRequest(x, m)
	default:
		s.modernRequest(x, m)
	}
}

// modernCall is what answers one request, in one piece of memory.
type modernCall struct {
	job     exchange.Job
	trickle trickle
	request gateway.Request
}

// modernRequest answers one request. If the client leaves, or is not accepted any more,
// the call is cancelled.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/cancellation
func (s *Server) modernRequest(x *exchange.Exchange, m *mcp.Message) {
	c := &modernCall{}
	j, t := &c.job, &c.trickle
	ctx, refused := s.exchanges.BeginJob(x.Context(), x, j, m.ID)
	if refused != nil {
		x.Refuse(m.ID, refused)
		return
	}
	defer s.exchanges.Jobs.Finish(j)
	t.begin(s, x)
	a := s.modernAnswer(ctx, x, m, c)
	x.Outcome, x.Ended = a.Outcome(), a.Ended
	t.finish(ctx, &a)
}

// modernAnswer runs one request.
func (s *Server) modernAnswer(ctx context.Context, x *exchange.Exchange, m *mcp.Message, c *modernCall) exchange.Answer {
	c.request = s.modernForm(x, m, c)
	result, err := s.exchanges.Handle(ctx, x.Caller, &c.request)
	if exchange.IsRevoked(ctx) {
		return exchange.Answer{ID: m.ID, Err: exchange.ErrGone}
	}
	return exchange.Answer{
		ID: m.ID, Result: result, Shared: exchange.SharedBy(m.Method), Err: err, Room: &c.job.Answer,
		Ended: c.request.Ended.Outcome,
	}
}

// modernForm returns the request for the desk.
func (s *Server) modernForm(x *exchange.Exchange, m *mcp.Message, c *modernCall) gateway.Request {
	level, _ := mcp.LevelOf(x.Meta.Text(mcp.MetaLogLevel)) // absent: none
	info := x.Meta.Value(mcp.MetaClientInfo)
	client, _ := info.Member("name").Text()
	version, _ := info.Member("version").Text()
	declared := x.Meta.Value(mcp.MetaClientCapabilities).Member("extensions")
	return gateway.Request{
		ID: x.ID, Method: m.Method, Params: m.Params,
		Capabilities: mcp.CapabilitiesOf(mcp.LatestModern, x.Meta.Object(mcp.MetaClientCapabilities)),
		Client:       client,
		From:         gateway.From{Remote: x.Remote, Name: client, Version: version},
		LogLevel:     level,
		Tasks:        tasksOf(declared),
		Extensions:   x.Declares(x.Context(), declared),
		Form:         lowering.Form(mcp.LatestModern),
		Notify:       c.trickle.notify,
		Room:         &c.job.Answer,
	}
}

// tasksOf returns the form of tasks that a modern client knows, which declares these
// extensions.
func tasksOf(extensions mcp.RawJSON) mcp.Tasks {
	if extensions.Member(mcp.ExtensionTasks).IsObject() {
		return mcp.TasksGiven
	}
	return 0
}
