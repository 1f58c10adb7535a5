package legacy

import (
	"context"
	"errors"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/lowering"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
)

// Bounds of what one request of a session may ask of its client.
const (
	maxRounds    = 8               // of questions
	maxQuestions = 32              // in one round
	roundTime    = 5 * time.Minute // for the answers of one round

	// A request that is to be tried again later is tried this often in a row, after
	// pauses that double.
	maxPauses  = 16
	firstPause = 100 * time.Millisecond
	maxPause   = 10 * time.Second
	lasting    = 30 * time.Second // a refusal that says to come back after so long passes by no pause
)

// errNoStream is the error for a message to a client that accepts no stream.
var errNoStream = errors.New("there is no stream to the client")

// sender sends to the client of a session: a reply, or a stream that is there already.
// Several requests of a batch share one.
type sender interface {
	// send sends a message. The error is errNoStream if this client accepts no stream.
	send(ctx context.Context, message []byte) error
	// releaseSlot gives back the slot of the request, since a human may take long to
	// answer. The desk counts the call all the while. It may be called again.
	releaseSlot()
}

// responder is with the client of a session, while one request of it is being answered.
type responder struct {
	sender

	carriesQuestions bool
	body             int64              // bytes of the body in which the request came
	memory           *share.Reservation // holds the answer; nil: nothing is counted
	rounds           roundTrips         // of the request, set by inRounds
}

// of returns the responder for one request of a batch.
func (w *responder) of(j *exchange.Job) *responder {
	return &responder{sender: w.sender, carriesQuestions: w.carriesQuestions, body: w.body, memory: &j.Answer}
}

// notify sends a notification. A client that accepts no stream does not get it.
func (w *responder) notify(ctx context.Context, n mcp.Notification) error {
	err := w.send(ctx, mcp.AppendRequest(nil, "", n.Method, n.Params))
	if errors.Is(err, errNoStream) {
		return nil
	}
	return err
}

// roundTrips is one request of a session on its way to a result that asks for nothing
// more. The desk answers a request with questions; the door sends these to the client as
// requests of its own, and then repeats the request with the answers:
//
//	client ──request──▶ door ──round 1──▶ desk
//	                    door ◀─questions── desk
//	client ◀─questions─ door
//	client ──answers──▶ door ──round 2──▶ desk
//	                    door ◀───── result ─────── desk
//	client ◀──result─── door
//
// The answers may arrive at another replica, which forwards them.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
type roundTrips struct {
	server    *Service
	session   *sessions.Session
	responder *responder
	caller    gateway.Caller
	request   gateway.Request
	revision  string
	heard     *share.Reservation // holds the answers of the round; nil: nothing was asked yet
}

// inRounds runs one request of a session until it has a result.
func (s *Service) inRounds(ctx context.Context, x *exchange.Exchange, l *sessions.Session,
	responder *responder, m *mcp.Message,
) (mcp.Object, *mcp.Error) {
	client := l.Client()
	capabilities := client.Capabilities
	if !responder.carriesQuestions {
		capabilities = mcp.Object{}
	}
	rt := &responder.rounds
	*rt = roundTrips{
		server: s, session: l, responder: responder, caller: x.Caller, revision: client.Revision,
		request: gateway.Request{
			ID: x.ID, Method: m.Method, Params: m.Params.Without("inputResponses", "requestState"),
			Capabilities: capabilities, InSession: true, Extensions: client.Extensions, Client: l.Name,
			LogLevel: client.Level, Notify: responder.notify, Tasks: lowering.Tasks(client.Revision),
			Memory: responder.memory, Form: lowering.Form(client.Revision),
			From: fromOf(ctx, l), Traceparent: x.Traceparent(),
		},
	}
	rt.request.Waited.Queue = x.Queued
	defer func() { rt.heard.Release() }()
	if m.Params.Has("task") || m.Method == mcp.MethodTasksResult {
		rt.request.OnTaskStatus = func(id string, n mcp.Notification) { s.tellOnce(l, id, n) }
	}
	if client.Revision >= mcp.Revision2511 { // which knows such notifications
		rt.request.OnOpened = func(id string) { s.opened(l, id) }
	}
	if m.Method == mcp.MethodTasksResult {
		responder.releaseSlot() // the request waits for as long as its task runs
	}
	result, rpcErr := rt.run(ctx)
	if rpcErr != nil {
		return lowering.Error(m.Method, rpcErr)
	}
	if m.Method == mcp.MethodTasksList {
		return s.forwarder.JoinTasks(ctx, x, m, result, responder.memory)
	}
	return result, nil
}

func (rt *roundTrips) run(ctx context.Context) (mcp.Object, *mcp.Error) {
	params := rt.request.Params
	for rounds, pauses := 0, 0; ; {
		result, rpcErr := rt.server.exchanges.Handle(ctx, rt.caller, &rt.request)
		// of a later round nothing was done; the client would make the whole call again
		refused := rpcErr != nil && rounds+pauses > 0 && rpcErr.RetryAfter > 0
		if refused && rpcErr.StableCode() == exchange.Unrecordable {
			return mcp.Object{}, exchange.ErrBegun
		}
		if refused && rpcErr.RetryAfter >= lasting {
			_, _ = rt.giveUp(ctx, lowering.ErrPauses)
			return mcp.Object{}, mcp.Stable(mcp.CodeInternal, rpcErr.StableCode(), rpcErr.Message)
		}
		if !refused && !result.Value("resultType").Says("input_required") {
			return result, rpcErr
		}
		next := rt.request.Params
		if !refused {
			next, rt.request.Refusals = params.With("requestState", result.Value("requestState")), nil
		}
		var err error
		if questions := result.Object("inputRequests"); questions.Len() > 0 {
			rounds, pauses = rounds+1, 0
			var answers mcp.Object
			answers, err = rt.askAll(ctx, rounds, questions)
			heard := answers.JSON()
			next = next.With("inputResponses", heard)
			// the request is repeated without the answers of the round before
			rt.heard.Shrink(int64(len(heard)))
		} else {
			pauses++
			err = rt.pause(ctx, pauses)
		}
		rt.request.Params = next
		if err != nil {
			return rt.giveUp(ctx, err)
		}
		caller, unserved := rt.server.desk.Admit(ctx, rt.caller.Principal, 0) // its lists may have to be read
		if unserved != nil || !rt.server.exchanges.Accepts(rt.caller.Principal) {
			_, _ = rt.giveUp(ctx, exchange.ErrCancelledCall) // the client is told only that the call ended
			return mcp.Object{}, exchange.ErrCancelledCall
		}
		rt.caller = caller
	}
}

// giveUp ends a request that gets no result. It sends the request to the desk once more,
// with a context that has ended, so that a source which keeps something open for the
// answers lets go of it.
func (rt *roundTrips) giveUp(ctx context.Context, err error) (mcp.Object, *mcp.Error) {
	ended, cancel := context.WithCancelCause(ctx)
	cancel(err)
	last := rt.request
	last.Params, last.Refusals = last.Params.Without("inputResponses"), nil
	// its answer is only that its context has ended
	_, _ = rt.server.exchanges.Handle(ended, rt.caller, &last)
	switch {
	case errors.Is(context.Cause(ctx), gateway.ErrStopped):
		return mcp.Object{}, exchange.ErrStopped
	case ctx.Err() != nil:
		return mcp.Object{}, exchange.ErrCancelledCall
	}
	return lowering.Unanswerable(rt.request.Method, err)
}

// pause waits before a request is tried again. n is how many times in a row it has been,
// this time included.
func (rt *roundTrips) pause(ctx context.Context, n int) error {
	if n > maxPauses {
		return lowering.ErrPauses
	}
	release := rt.server.waiting.enter(rt.caller, rt.responder.body)
	if release == nil {
		return lowering.ErrPauses
	}
	defer release()
	rt.responder.releaseSlot()
	if !pace.Wait(ctx, min(firstPause<<(n-1), maxPause)) {
		return context.Cause(ctx)
	}
	return nil
}
