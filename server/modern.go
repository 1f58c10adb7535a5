package server

import (
	"context"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// modern answers one message that carries its own metadata. Nothing that came before
// matters for it.
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
	case m.IsNotification(): // no notification of a client has a meaning here: it cancels a request by leaving
		x.writeStatus(http.StatusAccepted)
	case m.Method == mcp.MethodListen:
		s.listen(x, r, m)
	case x.keyed != nil:
		s.keyedRequest(x, m)
	default:
		s.modernRequest(x, m)
	}
}

// modernCall is what answers one request, in one piece of memory.
type modernCall struct {
	job     job
	trickle trickle
	request gateway.Request
}

// modernRequest answers one request. If the client leaves, or is not accepted any more,
// the call is cancelled.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/cancellation
func (s *Server) modernRequest(x *exchange, m *mcp.Message) {
	c := &modernCall{}
	j, t := &c.job, &c.trickle
	ctx, refused := s.exchanges.beginJob(x.context(), x, j, m.ID)
	if refused != nil {
		x.refuse(m.ID, refused)
		return
	}
	defer s.exchanges.jobs.finish(j)
	t.begin(s, x)
	a := s.modernAnswer(ctx, x, m, c)
	x.outcome, x.ended = a.outcome(), a.ended
	t.finish(ctx, &a)
}

// modernAnswer runs one request.
func (s *Server) modernAnswer(ctx context.Context, x *exchange, m *mcp.Message, c *modernCall) answer {
	c.request = s.modernForm(x, m, c)
	result, err := s.exchanges.handle(ctx, x.caller, &c.request)
	if isRevoked(ctx) {
		return answer{id: m.ID, err: errGone}
	}
	return answer{
		id: m.ID, result: result, shared: sharedBy(m.Method), err: err, room: &c.job.answer,
		ended: c.request.Ended.Outcome,
	}
}

// modernForm returns the request for the desk.
func (s *Server) modernForm(x *exchange, m *mcp.Message, c *modernCall) gateway.Request {
	level, _ := mcp.LevelOf(x.meta.Text(mcp.MetaLogLevel)) // absent: none
	info := x.meta.Value(mcp.MetaClientInfo)
	client, _ := info.Member("name").Text()
	version, _ := info.Member("version").Text()
	declared := x.meta.Value(mcp.MetaClientCapabilities).Member("extensions")
	return gateway.Request{
		ID: x.id, Method: m.Method, Params: m.Params,
		Capabilities: mcp.CapabilitiesOf(mcp.LatestModern, x.meta.Object(mcp.MetaClientCapabilities)),
		Client:       client,
		From:         gateway.From{Remote: x.remote, Name: client, Version: version},
		LogLevel:     level,
		Tasks:        tasksOf(declared),
		Extensions:   s.exchanges.declares(x.context(), x, declared),
		Form:         forms[mcp.LatestModern],
		Notify:       c.trickle.notify,
		Room:         &c.job.answer,
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
