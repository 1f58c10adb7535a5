package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/once"
)

const (
	// requests that wait for others with their key have the slots of all calls divided by
	// this
	repeatsPart = 4
	minRepeats  = 8

	// after which a call whose client left is cancelled, unless a repeat waits for it
	unwantedLook = 500 * time.Millisecond
)

// keyedRequest answers a call that is to run once, however often it comes:
//
//	the first ──▶ modernAnswer ──▶ the answer is kept ──▶ its client
//	a repeat while it runs ───────────── waits ─────────▶ the same answer
//	a repeat later ──▶ may the caller still use the tool? ──▶ the same answer
//
// The client of the first may leave, because its connection broke or a load balancer sent
// the request to another replica. Then the call is cancelled within a second, as without
// a key, unless a repeat waits for it.
func (s *Server) keyedRequest(x *exchange, m *mcp.Message) {
	request, refused := x.keyed.request(x)
	if refused != nil {
		x.refuse(m.ID, refused)
		return
	}
	c := &modernCall{}
	ctx, refused := s.exchanges.beginJob(x.outliving(), x, &c.job, m.ID)
	if refused != nil {
		x.refuse(m.ID, refused)
		return
	}
	defer s.exchanges.jobs.finish(&c.job)
	c.trickle.begin(s, x)
	claim, kept, err := s.beginKeyed(ctx, x, request)
	switch {
	case err != nil:
		s.refuseKeyed(ctx, x, c, err)
	case kept != nil:
		s.repeatKeyed(ctx, x, c, m, kept)
	default:
		s.runKeyed(ctx, x, c, m, claim)
	}
}

// beginKeyed claims the key, or waits for the answer of the request that has it. It gives
// up when the client leaves.
func (s *Server) beginKeyed(ctx context.Context, x *exchange,
	r once.Request,
) (once.Claim, *once.Answer, error) {
	if s.repeats.Take(r.User, 1) != nil {
		return nil, nil, once.ErrFull
	}
	defer s.repeats.Give(r.User, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(x.context(), stop)()
	return s.once.Begin(ctx, r)
}

// refuseKeyed answers a request of which nothing is run now.
func (s *Server) refuseKeyed(ctx context.Context, x *exchange, c *modernCall, err error) {
	refused := refusalOfKeyed(err)
	x.recordRefusal(refused)
	a := answer{id: c.job.id, err: refused.told, status: refused.status}
	if isRevoked(ctx) {
		a = answer{id: c.job.id, err: errGone}
	}
	x.outcome = a.outcome()
	c.trickle.finish(ctx, &a)
}

// refusalOfKeyed returns what is told of an error of once.Store.
func refusalOfKeyed(err error) *refusal {
	switch {
	case errors.Is(err, once.ErrBody):
		return errKeyBody
	case errors.Is(err, once.ErrUnkept):
		return errKeyAnswer
	case errors.Is(err, once.ErrUnknown):
		return errKeyOutcome
	case errors.Is(err, once.ErrFull):
		return errKeys
	case errors.Is(err, gateway.ErrStopped):
		return errDraining
	}
	// the client asked for once, and without what the replicas share nobody can promise
	// that
	return errReplicas
}

// repeatKeyed gives the answer that was kept, if the caller may still use the tool by the
// config of this replica, which may be newer than the answer, or another than that of the
// replica that ran it.
func (s *Server) repeatKeyed(ctx context.Context, x *exchange, c *modernCall, m *mcp.Message,
	kept *once.Answer,
) {
	caller, err := s.desk.Resolve(x.principal)
	if err != nil {
		x.recordRefusal(&refusal{status: statusOf(toldOf(err).Code, mcp.Modern), told: toldOf(err)})
	} else {
		c.request = s.modernForm(x, m, c)
		err = s.desk.Repeat(ctx, caller, &c.request)
	}
	if err == nil && !isRevoked(ctx) {
		x.outcome = "repeated"
		c.trickle.give(kept.Status, kept.Message)
		return
	}
	a := answer{id: m.ID, err: errGone}
	if err != nil {
		a.err = toldOf(err)
	}
	x.outcome, x.ended = a.outcome(), c.request.Ended.Outcome
	c.trickle.finish(ctx, &a)
}

// runKeyed runs the request, and keeps its answer before the client gets it.
func (s *Server) runKeyed(ctx context.Context, x *exchange, c *modernCall, m *mcp.Message, claim once.Claim) {
	a, settled := answer{id: m.ID, err: errPanic.told, status: errPanic.status}, false
	defer func() {
		if !settled { // a panic: nobody knows how far the call came
			claim.Finish(x.outliving(), once.Answer{Status: a.status, Message: a.message(x.id)})
		}
	}()
	defer context.AfterFunc(x.context(), func() { s.endUnwanted(ctx, &c.job, claim) })()
	a = s.modernAnswer(ctx, x, m, c)
	x.outcome, x.ended = a.outcome(), a.ended
	if a.err != nil && unmade(a.err) {
		claim.Free(x.outliving())
		settled = true
		c.trickle.finish(ctx, &a)
		return
	}
	given := once.Answer{Status: http.StatusOK}
	if a.err != nil {
		given.Status = statusOf(a.err.Code, mcp.Modern)
	}
	given.Message = s.exchanges.payload(ctx, &a, x.id).joined()
	claim.Finish(x.outliving(), given)
	settled = true
	c.trickle.give(given.Status, given.Message)
}

// endUnwanted cancels a call whose client has left, as soon as nobody waits for it. It
// returns when the call is over.
func (s *Server) endUnwanted(ctx context.Context, j *job, claim once.Claim) {
	look := time.NewTicker(unwantedLook)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			wanted := true // until the next look, if a panic keeps it from being known
			s.exchanges.safely(ctx, func() { wanted = claim.Wanted() })
			if !wanted {
				j.life.End(errCancelled)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// unmade tells whether an error of the desk says that the call was not made, so that it
// may be made under its key. Of all others that is not certain, or another attempt would
// end in the same way. The codes of servers never read like these.
func unmade(e *mcp.Error) bool {
	switch e.Code {
	case mcp.CodeForbidden, mcp.CodeLimited, mcp.CodeUnavailable:
		return true
	}
	switch e.StableCode() {
	case "DB-UPSTREAM-DOWN", "DB-TOOL":
		return true
	}
	return e.RetryAfter > 0
}
