package gateway

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// call is one use of an item on its way through the chain. One goroutine at a time works on it.
type call struct {
	caller  Caller
	request *Request
	method  *method
	params  mcp.Object // of the request, with the requestState as the item's server gave it out
	notify  func(context.Context, mcp.Notification) error

	// Set by resumed on the repeat of a call.
	state   *state // of the round before
	prepaid bool   // the call costs no token
	kept    bool   // its place among the calls at once is still taken

	// Set by resolved.
	item     *registry.Item
	tool     *granted           // when item is a tool
	prompt   *registry.Prompt   // when it is a prompt
	resource *registry.Resource // when it is a resource
	tasks    mcp.Tasks          // the form of tasks that the call may become
	task     *task              // that the call is about, nil for none
	away     string             // server that was not reached yet and may have the item, which then is nil; "" for none

	place   place         // taken by limited
	open    mcp.RawJSON   // set by invoke: the requestState under which the source keeps the call open; nil: it does not
	spent   time.Duration // of the item's time in all rounds; set by timed
	asking  bool          // set by conformed: the result asks for input
	outcome string        // set by whoever decides it; "" is a plain result
	repairs atomic.Int64  // made by sanitized; notifications may come from another goroutine
	logs    logs          // passed by sanitized
}

func newCall(c Caller, r *Request, m *method) *call {
	params := r.Params
	if m.arguments {
		params = withoutNullArguments(params)
	}
	return &call{caller: c, request: r, method: m, params: params, notify: r.Notify, prepaid: m.free}
}

// withoutNullArguments returns params without arguments that are null. Some clients write null when they have none, and
// servers take it so. Whatever else is null where the protocol has no null is refused.
func withoutNullArguments(params mcp.Object) mcp.Object {
	if arguments := params.Value("arguments"); arguments != nil && arguments.IsNull() {
		return params.Without("arguments")
	}
	return params
}

// Handler answers a call. Errors are of any kind until they pass audited, which tells the client an *mcp.Error.
type Handler func(context.Context, *call) (mcp.Object, error)

// Stage wraps a handler with one concern.
type Stage func(next Handler) Handler

// stages is the path of every call, outermost stage first. The order is the gateway's security policy:
//   - everything is on record, refusals included, so audited is outermost;
//   - the repeat of a call that was asked for input is part of that call, so resumed precedes what is paid for;
//   - a refusal costs a token of tenant and user, so limited precedes anything a caller could probe; the tool's own
//     bucket is charged after resolved, and labels and keys come from the catalogue, never from the client's spelling;
//   - an item sees only arguments that passed its checks, within its time;
//   - that an item's server is down is found by its use, innermost: such a call costs what every call costs, its caller
//     is one who may use the item, and wrong arguments are told meanwhile;
//   - a client gets only what the protocol lets it get, judged as the client sees it: conformed wraps sanitized;
//   - nothing leaves without passing sanitized, so it wraps the item itself.
func (g *Gateway) stages() []Stage {
	return []Stage{g.audited, g.measured, g.resumed, g.limited, g.resolved, g.validated, g.timed, g.conformed, g.sanitized}
}

func stack(stages []Stage, inner Handler) Handler {
	for _, stage := range slices.Backward(stages) {
		inner = stage(inner)
	}
	return inner
}

// audited makes sure that the call can be recorded before anything of it happens, writes it on record before anybody
// learns its outcome, and turns every error into what the client may be told.
func (g *Gateway) audited(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		if err := g.config.Audit.Book(); err != nil {
			return mcp.Object{}, g.unrecordable(ctx, c)
		}
		started := time.Now()
		result, err := g.guarded(ctx, c, next)
		failure := explain(err)
		record := c.record(failure, started)
		if failure.told != nil && failure.inside {
			g.config.Logger.ErrorContext(ctx, "call failed inside", "request_id", c.request.ID, "tenant", record.TenantID,
				"item", record.Item, "error", err)
		}
		kept := g.kept(ctx, record)
		if c.open != nil && (failure.told != nil || !kept) {
			g.abandon(ctx, c)
		}
		if !kept {
			return mcp.Object{}, explain(errUnrecorded).told
		}
		if failure.told != nil {
			return mcp.Object{}, failure.told
		}
		return g.finish(result), nil
	}
}

// guarded turns a panic further in into an error, so that it is on record and counted, and ends this call alone.
func (g *Gateway) guarded(ctx context.Context, c *call, next Handler) (result mcp.Object, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			g.config.Metrics.Panicked()
			err = &panicError{problem, debug.Stack()}
		}
	}()
	return next(ctx, c)
}

// measured counts the call, its time and its refusal. What the client spelt is no label: an unknown tool is "".
func (g *Gateway) measured(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		tenant, started := c.caller.Tenant.ID, time.Now()
		done := g.config.Metrics.CallStarted(tenant)
		defer done()
		result, err := g.guarded(ctx, c, next) // or a call that panics would not be counted
		failure := explain(err)
		outcome := c.kind(failure)
		server, item := c.labels()
		g.config.Metrics.Call(tenant, server, item, outcome, time.Since(started))
		if failure.refusal || outcome == outcomeInvalid {
			g.config.Metrics.Refused(outcome, tenant, failure.reason)
		}
		return result, err
	}
}

// labels returns the server and the item of a call for metrics. URIs are no labels: they have no bound, and neither
// have names that only the client says there are.
func (c *call) labels() (server, item string) {
	if c.item == nil {
		return c.away, ""
	}
	if label, named := strings.CutSuffix(c.method.label, "*"); named {
		return c.item.Server, label + c.item.Exposed
	}
	return c.item.Server, c.method.label
}

// limited takes a place among the calls at once of tenant and user, and one token of each.
func (g *Gateway) limited(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		tenant := c.caller.Tenant
		if !c.kept {
			leave, ok := enter(g.inflight, c.caller, tenant.concurrency)
			if !ok {
				return mcp.Object{}, errBusy
			}
			c.place.take(leave)
			defer c.place.release()
		}
		if c.prepaid {
			return next(ctx, c)
		}
		err := g.config.Limiter.Take(ctx, tenant.calls, ratelimit.Bucket{Key: c.caller.userKey(), Limit: tenant.userCalls})
		if err != nil {
			return mcp.Object{}, limitError{err, []string{"DB-LIMIT-TENANT", "DB-LIMIT-USER"}}
		}
		return next(ctx, c)
	}
}

// userKey names the caller's user among users and tenants.
func (c *Caller) userKey() string { return "user\x00" + c.Principal.User().Key() }

// enter takes one of the limit places that the caller's tenant has and, so that one user cannot take them all, one of
// the half of them that is the user's.
func enter(places *ratelimit.InFlight, c Caller, limit int) (leave func(), ok bool) {
	leaveUser, ok := places.Enter(c.userKey(), (limit+1)/2)
	if !ok {
		return nil, false
	}
	leaveTenant, ok := places.Enter(c.Tenant.ID, limit)
	if !ok {
		leaveUser()
		return nil, false
	}
	return func() { leaveTenant(); leaveUser() }, true
}

// resolved finds the item that the caller means among those it may use, and takes a token of a tool.
func (g *Gateway) resolved(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		if err := c.method.find(g, c); err != nil {
			return mcp.Object{}, err
		}
		if c.state != nil && c.state.server != c.item.Server {
			return mcp.Object{}, &stateError{stateMismatch}
		}
		if c.tool != nil && len(c.tool.buckets) > 0 && !c.prepaid {
			if err := g.config.Limiter.Take(ctx, c.tool.buckets...); err != nil {
				return mcp.Object{}, limitError{err, []string{"DB-LIMIT-TOOL"}}
			}
		}
		return next(ctx, c)
	}
}

// validated refuses arguments that the item does not take: of a tool with a result, from which the model can do better.
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools#error-handling
func (g *Gateway) validated(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		err := c.method.check(c)
		var wrong *registry.ArgumentError
		switch {
		case err == nil:
			return next(ctx, c)
		case !errors.As(err, &wrong):
			return mcp.Object{}, err
		case c.tool == nil:
			return mcp.Object{}, mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS", "Invalid params: "+wrong.Text)
		}
		c.outcome = outcomeInvalid
		return mcp.ToolError(wrong.Text), nil
	}
}

// timed ends the call when the item's time is over. What the rounds before took is gone; while a human answers, no
// round runs.
func (g *Gateway) timed(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		started, whole := time.Now(), cmp.Or(c.method.time, c.item.Timeout)
		if c.state != nil {
			c.spent = c.state.spent
		}
		if c.spent >= whole {
			c.noteOpen(c.params)
			return mcp.Object{}, errTimeout
		}
		limited, cancel := context.WithTimeout(ctx, whole-c.spent)
		defer cancel()
		result, err := next(limited, c)
		c.spent += time.Since(started)
		if err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
			return mcp.Object{}, errTimeout
		}
		return result, err
	}
}

// invoke uses the item: the inside of the chain.
func invoke(ctx context.Context, c *call) (mcp.Object, error) {
	result, err := c.method.use(ctx, c)
	c.noteOpen(result)
	if c.state != nil && c.state.held && isUnsent(err) {
		// The call that the server kept open in wait for answers went away with the server. Its repeat must not be told
		// that nothing was sent, or it would be made anew although it may have taken effect.
		err = &registry.UnavailableError{Server: c.item.Server, Sent: true, Err: err}
	}
	return result, err
}

// isUnsent tells whether err says that a server is not there and got nothing of this round.
func isUnsent(err error) bool {
	if _, down := errors.AsType[*registry.DownError](err); down {
		return true
	}
	unavailable, ok := errors.AsType[*registry.UnavailableError](err)
	return ok && !unavailable.Sent
}

// noteOpen keeps the state under which the source keeps the call open, which its place tells.
func (c *call) noteOpen(from mcp.Object) {
	if c.place.shared() || c.state != nil && c.state.held {
		c.open = from.Value("requestState")
	}
}

// abandon lets the source end what it keeps open in wait for answers, when its questions do not reach the client:
// otherwise the call's place would stay taken until nobody is waited for any more.
func (g *Gateway) abandon(ctx context.Context, c *call) {
	ended, end := context.WithCancel(ctx)
	end()
	c.params = c.params.Without("inputResponses").With("requestState", c.open)
	_, _ = g.guarded(ended, c, c.method.use) // what it says is known
}
