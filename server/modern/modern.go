// Package modern answers clients of revision 2026-07-28, each of whose requests stands
// alone. It knows no session, and neither how a request came to the endpoint nor who may
// do what.
//
// To read the package, begin at the top of this table. A file uses only what stands below
// it, and the Endpoint, which stands in modern:
//
//	one message             modern: what it is, and one request of the desk
//	  what is special       keyed: a call that is to run once; listen: a subscription, which is a stream
//	how it is judged        headers: they must say what the body says
//	how it is answered      response: JSON, or an event stream
package modern

import (
	"context"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/lowering"
	"github.com/drawbridge-mcp/drawbridge/server/once"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
)

// Config is what an endpoint needs. Every field is required.
type Config struct {
	Exchanges   *exchange.Service
	Streams     *streams.Set
	Forwarder   *forward.Forwarder
	Once        once.Store    // answers of calls with a key
	Memory      *share.Budget // of bytes, for what is held for clients
	MaxRequests int           // requests in work at once

	Name, Version string // of the gateway; Name may be ""
}

// Endpoint answers the messages of modern clients. It is safe for concurrent use.
type Endpoint struct {
	config  Config
	alarms  streams.Alarms
	repeats *share.Budget // slots of requests that wait for what runs under their key
}

// New returns an endpoint.
func New(cfg Config) *Endpoint {
	return &Endpoint{config: cfg, repeats: share.New(int64(max(cfg.MaxRequests/repeatsPart, minRepeats)))}
}

// Answer answers one message that carries its own metadata. Nothing that came before
// matters for it.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
func (e *Endpoint) Answer(x *exchange.Exchange, m *mcp.Message, body []byte) {
	if m.IsResponse() {
		x.Refuse(m.ID, exchange.ErrResponse)
		return
	}
	if x.Refuses(m.ID, e.check(x, m)) {
		return
	}
	switch {
	// no notification of a client has a meaning here: it cancels a request by leaving
	case m.IsNotification():
		x.WriteStatus(http.StatusAccepted)
	case m.Method == mcp.MethodListen:
		e.listen(x, m)
	case x.Key != nil:
		e.keyedRequest(x, m, body)
	default:
		e.request(x, m)
	}
}

// call is what answers one request, in one piece of memory.
type call struct {
	job      exchange.Job
	response response
	request  gateway.Request
}

// request answers one request. If the client leaves, or is not accepted any more,
// the call is cancelled.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/cancellation
func (e *Endpoint) request(x *exchange.Exchange, m *mcp.Message) {
	c := &call{}
	j, t := &c.job, &c.response
	ctx, refused := e.config.Exchanges.BeginJob(x.Context(), x, j, m.ID)
	if x.Refuses(m.ID, refused) {
		return
	}
	defer e.config.Exchanges.Jobs.Finish(j)
	t.begin(e, x)
	a := e.run(ctx, x, m, c)
	t.finish(ctx, &a)
}

// run runs one request.
func (e *Endpoint) run(ctx context.Context, x *exchange.Exchange, m *mcp.Message, c *call) exchange.Answer {
	c.request = e.requestOf(x, m, c)
	result, err := e.config.Exchanges.Handle(ctx, x.Caller, &c.request)
	if exchange.IsRevoked(ctx) {
		return exchange.Answer{ID: m.ID, Err: exchange.ErrCancelledCall}
	}
	return exchange.Answer{
		ID: m.ID, Result: result, Shared: exchange.SharedBy(m.Method), Err: err, Memory: &c.job.Answer,
		Ended: c.request.Ended,
	}
}

// requestOf returns the request for the desk.
func (e *Endpoint) requestOf(x *exchange.Exchange, m *mcp.Message, c *call) gateway.Request {
	r := requestFrom(x.Context(), x)
	r.Traceparent, r.Method, r.Params = x.Traceparent(), m.Method, m.Params
	r.Waited.Queue = x.Queued
	r.LogLevel, _ = mcp.LevelOf(x.Meta.Text(mcp.MetaLogLevel)) // absent: none
	r.Form, r.Notify, r.Memory = lowering.Form(mcp.LatestModern), c.response.notify, &c.job.Answer
	return r
}

// requestFrom returns what a request says of the client that makes it.
func requestFrom(ctx context.Context, x *exchange.Exchange) gateway.Request {
	info := x.Meta.Value(mcp.MetaClientInfo)
	client, _ := info.Member("name").Text()
	version, _ := info.Member("version").Text()
	declared := x.Meta.Value(mcp.MetaClientCapabilities).Member("extensions")
	return gateway.Request{
		ID: x.ID, Client: client, From: gateway.From{Remote: x.Remote, Name: client, Version: version},
		Capabilities: mcp.CapabilitiesOf(mcp.LatestModern, x.Meta.Object(mcp.MetaClientCapabilities)),
		Tasks:        tasksOf(declared),
		Extensions:   x.Declares(ctx, declared),
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
