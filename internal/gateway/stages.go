package gateway

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// stages returns the path of every call, outermost stage first. The order is the
// gateway's security policy, so each line here says what would go wrong in another order:
//   - audited is outermost: a call that another stage refuses must be on record too;
//   - resumed precedes limited: the repeat of a call that asked its client for input is
//     part of the same call, and must not pay or wait for a slot again;
//   - limited precedes resolved: a refusal costs a token as well, so that nobody finds
//     out for free which items exist. It looks the tool up, because all buckets of a call
//     are asked in one go, which may be a round trip. Those of a tool are named by the
//     catalogue, never by what the client spelt: a name that the caller may not use has
//     none, and costs what any call costs;
//   - revocable follows resolved, which finds the item that the caller may lose, and
//     wraps all that can take long;
//   - validated and timed wrap the use itself: an item sees only arguments that passed
//     its checks, and only within its time;
//   - bulkheaded follows resolved, which finds the server, and validated, so that wrong
//     arguments hold no slot there;
//   - that a server is down is found by the use, innermost. So a call to it costs what
//     every call costs, only callers who may use the item learn of it, and wrong
//     arguments are reported meanwhile;
//   - conformed wraps sanitized: whether the protocol allows a result is judged on the
//     result that the client will see;
//   - sanitized wraps the use: nothing that an item says leaves without being cleaned.
func (g *Gateway) stages() []Stage {
	return []Stage{
		g.audited, g.measured, g.resumed, g.limited, g.resolved, g.revocable, g.validated, g.bulkheaded,
		g.timed, g.conformed, g.sanitized,
	}
}

func stack(stages []Stage, inner Handler) Handler {
	for _, stage := range slices.Backward(stages) {
		inner = stage(inner)
	}
	return inner
}

// audited makes sure before anything happens that the call can be recorded, and records
// it before anybody learns how it ended. It also turns every error into what the client
// may be told. The result of a call that was made and could not be recorded is withheld.
func (g *Gateway) audited(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		if err := g.config.Audit.Book(); err != nil {
			return mcp.Object{}, g.unrecordable(ctx, c)
		}
		started := time.Now()
		result, err := g.guarded(ctx, c, next)
		failure := failureOf(err)
		record := c.record(ctx, failure, started)
		c.request.Waited = Waited{} // or the next round of the request would have it once more
		if failure.inside {
			g.logInside(ctx, &record, failure, err)
		}
		recorded := g.recorded(ctx, &record)
		if c.open != nil && (failure.rpcErr != nil || !recorded) {
			g.abandon(ctx, c)
		}
		if !recorded {
			return mcp.Object{}, failureOf(errUnrecorded).rpcErr
		}
		switch {
		case failure.rpcErr == nil:
			return g.ended(c, result), nil
		case failure.asTool && c.method.Result == mcp.ResultContent:
			return g.ended(c, mcp.ToolError(failure.rpcErr.Message+" ("+failure.rpcErr.StableCode()+").")),
				nil
		}
		return mcp.Object{}, failure.rpcErr
	}
}

// measured counts the call, how long it took and whether it was refused. The labels come
// from the catalogue: for a tool that does not exist, the label is empty.
func (g *Gateway) measured(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		tenant, started := c.caller.Tenant.ID, time.Now()
		done := g.config.Metrics.CallStarted(tenant)
		defer done()
		result, err := g.guarded(ctx, c, next) // or a call that panics would not be counted
		failure := failureOf(err)
		outcome := c.kind(failure)
		server, item := c.labels()
		g.config.Metrics.Call(tenant, server, item, outcome, time.Since(started))
		if c.request.LogLevel > 0 {
			g.config.Metrics.DeprecatedUsed(tenant, "logging")
		}
		if reason, counts := failure.counted(); counts || outcome == outcomeInvalid {
			g.config.Metrics.Refused(outcome, tenant, reason)
		}
		return result, err
	}
}

// labels returns the labels of the call for metrics: its server and its item. URIs and
// names that only the client has said are never labels, because there is no bound on how
// many there are.
func (c *call) labels() (server, item string) {
	if c.item == nil {
		return c.unreached, ""
	}
	if label, named := strings.CutSuffix(c.method.label, "*"); named {
		return c.item.Server, label + c.item.Exposed
	}
	return c.item.Server, c.method.label
}

// resolved finds the item that the caller means, among the items that this caller may
// use. If the catalogue has changed since limited looked, it takes a token from the
// buckets of the tool that is there now.
func (g *Gateway) resolved(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		if err := c.method.find(g, c); err != nil {
			return mcp.Object{}, err
		}
		if c.state != nil && c.state.Server != c.item.Server {
			return mcp.Object{}, &stateError{stateMismatch}
		}
		if c.tool != c.charged && !c.prepaid {
			if err := g.charge(ctx, c, c.tool); err != nil {
				return mcp.Object{}, limitError{err, []rate{{codeToolLimit, "tools"}}}
			}
		}
		return next(ctx, c)
	}
}

// validated refuses arguments that the item does not accept. For a tool the refusal is a
// result with isError, because a model can read that and try again; for all else it is an
// error.
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools#error-handling
func (g *Gateway) validated(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		err := g.check(ctx, c)
		if err == nil {
			return next(ctx, c)
		}
		wrong, ok := errors.AsType[*registry.ArgumentError](err)
		if !ok {
			return mcp.Object{}, err
		}
		c.wrong = *wrong
		if c.tool == nil {
			return mcp.Object{}, mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS", "Invalid params: "+wrong.Text)
		}
		c.outcome = outcomeInvalid
		return g.resultAsTask(c, mcp.ToolError(wrong.Text))
	}
}

// timed ends the call when the time of its item is used up. All rounds of a call share
// one such time, and it does not run while the client answers questions, because no round
// is under way then.
func (g *Gateway) timed(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		started, whole := time.Now(), cmp.Or(c.method.time, c.item.Timeout)
		if c.state != nil {
			c.spent = time.Duration(c.state.Spent)
		}
		if c.spent >= whole {
			c.noteOpen(c.params)
			return mcp.Object{}, &timeoutError{c.item.Server, whole}
		}
		c.life.EndAt(started.Add(whole - c.spent))
		result, err := next(ctx, c)
		c.spent += time.Since(started)
		if err != nil && c.spent >= whole && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return mcp.Object{}, &timeoutError{c.item.Server, whole}
		}
		return result, err
	}
}

// invoke uses the item. It is the innermost handler of the chain.
func invoke(ctx context.Context, c *call) (mcp.Object, error) {
	started := time.Now()
	result, err := c.method.use(ctx, c)
	c.upstream = time.Since(started)
	c.noteOpen(result)
	if c.state != nil && c.state.SlotRetained && isUnsent(err) {
		// The call that the server kept open in wait for answers went away with the
		// server. Its repeat must not be told that nothing was sent, or it would be made
		// anew although it may have taken effect.
		err = &registry.UnavailableError{Server: c.item.Server, Sent: true, Err: err}
	}
	return result, err
}

// noteOpen remembers the requestState under which the source keeps this call open, if it
// does: that shows in the slot of the call, which somebody besides the call still holds.
func (c *call) noteOpen(from mcp.Object) {
	if c.slot.shared() || c.state != nil && c.state.SlotRetained {
		c.open = from.Value("requestState")
	}
}

// abandon tells the source to end the call that it keeps open for answers, because its
// questions will not reach the client. Without this, the call would hold its slot until
// the source stops waiting by itself.
func (g *Gateway) abandon(ctx context.Context, c *call) {
	ended, end := context.WithCancel(ctx)
	end()
	c.params = c.params.Without("inputResponses").With("requestState", c.open)
	_, _ = g.guarded(ended, c, c.method.use) // its answer is only that its context has ended
}

// check checks what the client sent along, within the budget that the caller has.
func (g *Gateway) check(ctx context.Context, c *call) error {
	b := &c.budget // and not a variable, which would be one more allocation of every call
	b.turn = turn{call: c, ctx: ctx, enter: (*fairqueue.Queue).Enter}
	b.allocation = g.config.Memory.Allocate(c.user())
	defer b.allocation.Release()
	defer b.end()
	return c.method.check(c, b)
}

// ended is finish for the result of a call. A session's has no place for what finish
// adds, and the door would take it away again.
func (g *Gateway) ended(c *call, result mcp.Object) mcp.Object {
	if c.request.InSession {
		return result
	}
	return g.finish(result)
}

// conformed lets a result out only if the protocol allows it as the answer to this method
// and this client can understand it. Some methods bring a result into a legal form first,
// and some have an answer of their own for an error of the upstream.
func (g *Gateway) conformed(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		result, err := next(ctx, c)
		if err != nil {
			var said *upstreamError
			if c.method.rescue != nil && errors.As(err, &said) {
				return c.method.rescue(c, said)
			}
			return mcp.Object{}, err
		}
		switch kind := result.Value("resultType"); {
		case kind == nil, kind.Says("complete"):
			return c.method.conform(ctx, g, c, result)
		case kind.Says("input_required"):
			return c.asks(result)
		case kind.Says("task"):
			return g.makeTask(c, result)
		}
		return mcp.Object{}, c.broken("a result of an unknown type")
	}
}

// asks checks a result that asks the client for input, and marks the call as one that
// does. It refuses questions that this client did not declare it can be asked.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
func (c *call) asks(result mcp.Object) (mcp.Object, error) {
	if !c.method.Asks {
		return mcp.Object{}, c.broken("a question where none is allowed")
	}
	questions, inner := result.Value("inputRequests"), result.Value("requestState")
	if questions == nil && inner == nil {
		return mcp.Object{}, c.broken("input is required, but none is asked for")
	}
	if text, ok := inner.Text(); inner != nil && (!ok || len(text) > maxInner) {
		return mcp.Object{}, c.broken("a requestState that is no text or too long")
	}
	if questions != nil {
		if err := c.askable(questions); err != nil {
			return mcp.Object{}, err
		}
		if c.task != nil {
			result = result.With("inputRequests", c.related(questions))
		}
	}
	c.outcome = outcomeAsks
	return result.Without("ttlMs", "cacheScope"), nil
}
