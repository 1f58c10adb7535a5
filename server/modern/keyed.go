package modern

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/once"
)

const (
	// requests that wait for others with their key have the slots of all calls divided by
	// this
	repeatsPart = 4
	minRepeats  = 8

	// after which a call whose client left is cancelled, unless a repeat waits for it
	unwantedCheck = 500 * time.Millisecond
)

// keyedRequest answers a call that is to run once, however often it comes:
//
//	the first ──▶ run ──▶ the answer is kept ──▶ its client
//	a repeat while it runs ───────────── waits ─────────▶ the same answer
//	a repeat later ──▶ may the caller still use the tool? ──▶ the same answer
//
// The client of the first may leave, because its connection broke or a load balancer sent
// the request to another replica. Then the call is cancelled within a second, as without
// a key, unless a repeat waits for it. A repeat at another replica is forwarded to the
// one that runs the call, and waits there. It is tried again when the answer does not
// come, at last by its client: so a call that was forwarded here goes on when the
// connection of the link breaks, which says nothing of the client.
func (e *Endpoint) keyedRequest(x *exchange.Exchange, m *mcp.Message, body []byte) {
	request, refused := x.Key.Request(x.Principal)
	if x.Refuses(m.ID, refused) {
		return
	}
	c := &call{}
	ctx, refused := e.config.Exchanges.BeginJob(x.Outliving(), x, &c.job, m.ID)
	if x.Refuses(m.ID, refused) {
		return
	}
	defer e.config.Exchanges.Jobs.Finish(&c.job)
	c.response.begin(e, x)
	claim, stored, err := e.beginKeyed(ctx, x, request)
	at, elsewhere := errors.AsType[*once.ElsewhereError](err)
	ran := elsewhere // as far as is known
	for until := time.Now().Add(forward.HoldTime); elsewhere && c.response.withdraw(); {
		if x.Forwarded {
			x.Refuse(m.ID, forward.ErrElsewhere)
			return
		}
		if e.config.Forwarder.Forward(x, at.Home, m, body) == forward.Done {
			return
		}
		x.Reservation.TakeSlot()
		c.response.begin(e, x)
		if !e.config.Forwarder.AwaitChange(x.Context(), until) {
			break
		}
		claim, stored, err = e.beginKeyed(ctx, x, request)
		at, elsewhere = errors.AsType[*once.ElsewhereError](err)
	}
	switch {
	case err != nil:
		e.refuseKeyed(ctx, x, c, err, ran)
	case stored != nil:
		e.repeatKeyed(ctx, x, c, m, stored)
	default:
		e.runKeyed(ctx, x, c, m, claim)
	}
}

// beginKeyed claims the key, or waits for the answer of the request that has it. It gives
// up when the client leaves.
func (e *Endpoint) beginKeyed(ctx context.Context, x *exchange.Exchange,
	r once.Request,
) (once.Claim, *once.Answer, error) {
	if e.repeats.Take(r.User, 1) != nil {
		return nil, nil, once.ErrFull
	}
	defer e.repeats.Give(r.User, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(x.Context(), stop)()
	return e.config.Once.Begin(ctx, r)
}

// refuseKeyed answers a request of which nothing is run now. ran tells whether it may
// have been run elsewhere.
func (e *Endpoint) refuseKeyed(ctx context.Context, x *exchange.Exchange, c *call, err error, ran bool) {
	refused := cmp.Or(keyedRefusals.Of(err), exchange.ErrReplicas)
	if ran && refused == exchange.ErrReplicas {
		refused = exchange.RefusalOf(exchange.ErrForwardLost, mcp.Modern)
	}
	given, reason := isGivenUp(ctx, x)
	if given = given && refused == exchange.ErrReplicas; given {
		x.RecordCancelled(reason)
	} else {
		x.RecordRefusal(refused)
	}
	a := exchange.Answer{ID: c.job.ID, Err: refused.Err, Status: refused.Status}
	if given || exchange.IsRevoked(ctx) {
		a = exchange.Answer{ID: c.job.ID, Err: exchange.ErrCancelledCall}
	}
	c.response.finish(ctx, &a)
}

// isGivenUp tells whether nobody waits for the answer to a request any more, and why that
// is on record as a reason, "" if its client has left.
func isGivenUp(ctx context.Context, x *exchange.Exchange) (given bool, reason string) {
	if exchange.IsRevoked(ctx) {
		return true, exchange.OutcomeRevoked
	}
	return x.Context().Err() != nil, ""
}

// keyedRefusals are what is told of errors of once.Store. Of all others it is
// ErrReplicas: the client asked for once, and without what the replicas share nobody can
// promise that.
var keyedRefusals = exchange.Refusals{
	{once.ErrBody, exchange.ErrKeyBody},
	{once.ErrUnkept, exchange.ErrKeyAnswer},
	{once.ErrUnknown, exchange.ErrKeyOutcome},
	{once.ErrFull, exchange.ErrKeys},
	{gateway.ErrStopped, exchange.ErrDraining},
}

// repeatKeyed gives the answer that was kept, if the caller may still use the tool by the
// config of this replica, which may be newer than the answer, or another than that of the
// replica that ran it.
func (e *Endpoint) repeatKeyed(ctx context.Context, x *exchange.Exchange, c *call, m *mcp.Message,
	stored *once.Answer,
) {
	caller, err := e.config.Exchanges.Desk.Resolve(x.Principal)
	if err != nil {
		x.RecordRefusal(exchange.RefusalOf(err, mcp.Modern))
	} else {
		c.request = e.requestOf(x, m, c)
		err = e.config.Exchanges.Desk.Repeat(ctx, caller, &c.request)
	}
	if err == nil && !exchange.IsRevoked(ctx) {
		x.Outcome = "repeated"
		c.response.give(stored.Status, stored.Message)
		return
	}
	a := exchange.Answer{ID: m.ID, Err: exchange.ErrCancelledCall, Ended: c.request.Ended}
	if err != nil {
		a.Err = exchange.ErrorOf(err)
	}
	c.response.finish(ctx, &a)
}

// runKeyed runs the request, and keeps its answer before the client gets it.
func (e *Endpoint) runKeyed(ctx context.Context, x *exchange.Exchange, c *call, m *mcp.Message,
	claim once.Claim,
) {
	a, settled := exchange.Answer{ID: m.ID, Err: exchange.ErrPanic.Err, Status: exchange.ErrPanic.Status},
		false
	defer func() {
		if !settled { // a panic: nobody knows how far the call came
			claim.Finish(x.Outliving(), once.Answer{Status: a.Status, Message: a.Message(x.ID)})
		}
	}()
	if !x.Forwarded {
		defer context.AfterFunc(x.Context(), func() { e.endUnwanted(ctx, &c.job, claim) })()
	}
	a = e.run(ctx, x, m, c)
	if a.Err != nil && unmade(a.Err) {
		claim.Free(x.Outliving())
		settled = true
		c.response.finish(ctx, &a)
		return
	}
	x.Outcome, x.Ended = a.Outcome(), a.Ended
	given := once.Answer{Status: http.StatusOK}
	if a.Err != nil {
		given.Status = exchange.StatusOf(a.Err.Code, mcp.Modern)
	}
	given.Message = e.config.Exchanges.Payload(ctx, &a, x.ID).Joined()
	claim.Finish(x.Outliving(), given)
	settled = true
	c.response.give(given.Status, given.Message)
}

// endUnwanted cancels a call whose client has left, as soon as nobody waits for it. It
// returns when the call is over.
func (e *Endpoint) endUnwanted(ctx context.Context, j *exchange.Job, claim once.Claim) {
	for pace.Wait(ctx, unwantedCheck) {
		wanted := true // until the next look, if a panic keeps it from being known
		e.config.Exchanges.Safely(ctx, func() { wanted = claim.Wanted() })
		if !wanted {
			j.Life.End(exchange.ErrCancelled)
			return
		}
	}
}

// unmade tells whether an error of the desk says that the call was not made, so that it
// may be made under its key. Of all others that is not certain, or another attempt would
// end in the same way. The codes of servers never read like these.
func unmade(e *mcp.Error) bool {
	return slices.Contains([]int{mcp.CodeForbidden, mcp.CodeLimited, mcp.CodeUnavailable}, e.Code) ||
		slices.Contains([]string{"DB-UPSTREAM-DOWN", "DB-TOOL"}, e.StableCode()) || e.RetryAfter > 0
}
