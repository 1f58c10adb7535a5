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

	"github.com/drawbridge-mcp/drawbridge/internal/allot"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/ratelimit"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// call is one use of an item, such as a tools/call or the opening of a subscription, on its way through the stages. It
// belongs to one goroutine at a time; what is atomic may also be touched by the goroutine of an upstream that sends
// notifications.
type call struct {
	caller  Caller
	request *Request
	method  *method
	params  mcp.Object // of the request; requestState is what the item's server gave out, not our sealed form of it
	notify  func(context.Context, mcp.Notification) error

	// Set by resumed on the repeat of a call.
	state   *state // of the round before
	prepaid bool   // the call costs no token of the limits of calls
	kept    bool   // the call still has the place that its first round took
	lost    bool   // the replica that kept the call is not there

	stays  bool // only this process can go on with what the result asks for; set by the source
	asking bool // set by conformed: the result asks for input

	// Set by resolved.
	item     *registry.Item
	tool     *registry.Tool     // when item is a tool
	prompt   *registry.Prompt   // when it is a prompt
	resource *registry.Resource // when it is a resource
	tasks    mcp.Tasks          // the form of tasks that the call may become
	task     *task              // that the call is about, nil for none
	away     string             // a server that may have the item, but was not reached yet; item is nil then. "" for none

	charged *registry.Tool   // whose buckets limited has taken from; nil for none
	place   place            // taken by limited, and with it by portioned one at the server
	life    lifetime.Context // of the use; begun by timed
	begun   begun            // by which Judge ends the call; set by revocable
	means   argumentMeans    // used by check
	relay   relay            // of notifications; used by sanitized
	told    registry.Call    // what the source gets to know; set by use
	open    mcp.RawJSON      // set by invoke: the requestState under which the source keeps the call open; nil: it does not
	spent   time.Duration    // how much of the item's time all rounds together have used; set by timed
	outcome string           // one word for the records, set by the stage that decides it; "" is an ordinary result
	judging int              // work of judge so far; see maxJudging
	leftOut int              // how many resources judge left out of the result
	repairs atomic.Int64     // how much sanitized changed; notifications may come from another goroutine
	logs    logs             // how many log messages sanitized let pass

	// As registry.Call.Hold; set by revocable.
	hold func(end func()) (release func())
}

func newCall(c Caller, r *Request, m *method) *call {
	params := r.Params
	if m.arguments {
		params = withoutNullArguments(params)
	}
	return &call{caller: c, request: r, method: m, params: params, notify: r.Notify, prepaid: m.free}
}

// withoutNullArguments returns params without the member arguments if that is null. Some clients send null for a tool
// or prompt without arguments, and servers accept it. No other null in a place where the protocol has none is forgiven.
func withoutNullArguments(params mcp.Object) mcp.Object {
	if arguments := params.Value("arguments"); arguments != nil && arguments.IsNull() {
		return params.Without("arguments")
	}
	return params
}

// Handler answers a call. Inside the chain an error may be of any type; the outermost stage, audited, turns it into the
// *mcp.Error that the client is told.
type Handler func(context.Context, *call) (mcp.Object, error)

// Stage wraps a handler with one concern.
type Stage func(next Handler) Handler

// stages returns the path of every call, outermost stage first. The order is the gateway's security policy, so each
// line here says what would go wrong in another order:
//   - audited is outermost: a call that another stage refuses must be on record too;
//   - resumed precedes limited: the repeat of a call that asked its client for input is part of the same call, and must
//     not pay or wait for a place again;
//   - limited precedes resolved: a refusal costs a token as well, so that nobody finds out for free which items exist.
//     It looks the tool up, because all buckets of a call are asked in one go, which may be a round trip. Those of a tool
//     are named by the catalogue, never by what the client spelt: a name that the caller may not use has none, and
//     costs what any call costs;
//   - revocable follows resolved, which finds the item that the caller may lose, and wraps all that can take long;
//   - validated and timed wrap the use itself: an item sees only arguments that passed its checks, and only within its
//     time;
//   - portioned follows resolved, which finds the server, and validated, so that wrong arguments hold no place there;
//   - that a server is down is found by the use, innermost. So a call to it costs what every call costs, only callers
//     who may use the item learn of it, and wrong arguments are reported meanwhile;
//   - conformed wraps sanitized: whether the protocol allows a result is judged on the result that the client will see;
//   - sanitized wraps the use: nothing that an item says leaves without being cleaned.
func (g *Gateway) stages() []Stage {
	return []Stage{
		g.audited, g.measured, g.resumed, g.limited, g.resolved, g.revocable, g.validated, g.portioned, g.timed, g.conformed, g.sanitized,
	}
}

func stack(stages []Stage, inner Handler) Handler {
	for _, stage := range slices.Backward(stages) {
		inner = stage(inner)
	}
	return inner
}

// audited makes sure before anything happens that the call can be recorded, and records it before anybody learns how it
// ended. It also turns every error into what the client may be told. The result of a call that was made and could not
// be recorded is withheld.
func (g *Gateway) audited(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		if err := g.config.Audit.Book(); err != nil {
			return mcp.Object{}, g.unrecordable(ctx, c)
		}
		started := time.Now()
		result, err := g.guarded(ctx, c, next)
		failure := explain(err)
		record := c.record(failure, started)
		record.Arguments = g.digest(ctx, c)
		if failure.inside {
			g.logInside(ctx, &record, failure, err)
		}
		kept := g.kept(ctx, &record)
		if c.open != nil && (failure.told != nil || !kept) {
			g.abandon(ctx, c)
		}
		if !kept {
			return mcp.Object{}, explain(errUnrecorded).told
		}
		switch {
		case failure.told == nil:
			return g.ended(c, result), nil
		case failure.asTool && c.method.Result == mcp.ResultContent:
			return g.ended(c, mcp.ToolError(failure.told.Message+" ("+failure.told.StableCode()+").")), nil
		}
		return mcp.Object{}, failure.told
	}
}

// guarded runs next and turns a panic in it into an error, so that the panic is on record, is counted, and ends only
// this call.
func (g *Gateway) guarded(ctx context.Context, c *call, next Handler) (result mcp.Object, err error) {
	defer func() {
		if problem := recover(); problem != nil {
			g.config.Metrics.Panicked()
			err = &panicError{problem, debug.Stack()}
		}
	}()
	return next(ctx, c)
}

// measured counts the call, how long it took and whether it was refused. The labels come from the catalogue: for a tool
// that does not exist, the label is empty.
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
		if reason, counts := failure.counted(); counts || outcome == outcomeInvalid {
			g.config.Metrics.Refused(outcome, tenant, reason)
		}
		return result, err
	}
}

// labels returns the labels of the call for metrics: its server and its item. URIs and names that only the client has
// said are never labels, because there is no bound on how many there are.
func (c *call) labels() (server, item string) {
	if c.item == nil {
		return c.away, ""
	}
	if label, named := strings.CutSuffix(c.method.label, "*"); named {
		return c.item.Server, label + c.item.Exposed
	}
	return c.item.Server, c.method.label
}

// limited takes one of the places for calls at once, of the tenant and of the user, and one token from the bucket of
// each and from those of the tool, where the user may have used up its share of the tenant's and of the tool's. The repeat
// of a call that was asked for input may still have its place, and pays nothing.
func (g *Gateway) limited(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		tenant := c.caller.Tenant
		if !c.kept {
			user := c.user()
			if err := g.takePlace(ctx, allot.Calls, user, tenant.concurrency); err != nil {
				return mcp.Object{}, errors.Join(errBusy, err)
			}
			c.place.take(g.inflight, user)
			defer c.place.release()
		}
		if c.prepaid {
			return next(ctx, c)
		}
		all, own := tenant.calls, ratelimit.Bucket{Key: c.caller.key(), Limit: tenant.userCalls, Group: tenant.ID}
		all.Sharer = own.Key
		c.charged = g.foreseen(c)
		if err := g.charge(ctx, c, c.charged, all, own); err != nil {
			return mcp.Object{}, limitError{err, []rate{{codeTenantLimit, "calls"}, {codeUserLimit, "user_calls"}, {codeToolLimit, "tools"}}}
		}
		return next(ctx, c)
	}
}

// charge takes what a call costs from those buckets and from those of the tool, nil for none.
func (g *Gateway) charge(ctx context.Context, c *call, tool *registry.Tool, buckets ...ratelimit.Bucket) error {
	room, again := g.buckets.Get().(*[4]ratelimit.Bucket)
	if !again {
		room = new([4]ratelimit.Bucket)
	}
	defer func() {
		*room = [4]ratelimit.Bucket{} // whose names are those of a caller
		g.buckets.Put(room)
	}()
	if all := g.toolBuckets(append(room[:0], buckets...), tool, &c.caller); len(all) > 0 {
		return g.config.Limiter.Take(ctx, all...)
	}
	return nil
}

// takePlace takes one of the limit places of a kind that the user's tenant has at all replicas together. So that one user
// cannot take them all, a user has at most half of those that this replica may give out. If that is too few, takePlace has
// it ask for more, until it has enough or gets no more: one step may not be enough for a user, or for all who wait for it.
// The errors are those of take.
func (g *Gateway) takePlace(ctx context.Context, kind allot.Kind, user share.User, limit int) error {
	places := g.placesOf(kind)
	here := g.config.Allot.Here(kind, user.TenantID, limit)
	err := take(places, user, limit, here)
	for err != nil && here < limit && g.config.Allot.More(ctx, kind, user.TenantID, limit) {
		here = g.config.Allot.Here(kind, user.TenantID, limit)
		err = take(places, user, limit, here)
	}
	return err
}

// placesOf returns who holds places of a kind here.
func (g *Gateway) placesOf(kind allot.Kind) *share.Budget {
	if kind == allot.Calls {
		return g.inflight
	}
	return g.streams
}

// Taken returns how many places of a kind a tenant has taken at this replica.
func (g *Gateway) Taken(kind allot.Kind, tenant string) int {
	return int(g.placesOf(kind).HeldBy(tenant))
}

// take takes one of the limit places of the user's tenant, of which here may be given out. The error is errUserPlaces or
// errTenantPlaces if there was none, and errNoPlaces if there never is one.
func take(places *share.Budget, user share.User, limit, here int) error {
	if limit == 0 {
		return errNoPlaces
	}
	switch err := places.TakeWithin(user, 1, share.Bounds{Tenant: int64(here), User: int64(ofUser(here))}); {
	case err == nil:
		return nil
	case errors.Is(err, share.ErrUser):
		return errUserPlaces
	}
	return errTenantPlaces
}

// ofUser returns how many of that many places of a tenant one of its users may hold.
func ofUser(places int) int { return (places + 1) / 2 }

// resolved finds the item that the caller means, among the items that this caller may use. If the catalogue has changed
// since limited looked, it takes a token from the buckets of the tool that is there now.
func (g *Gateway) resolved(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		if err := c.method.find(g, c); err != nil {
			return mcp.Object{}, err
		}
		if c.state != nil && c.state.server != c.item.Server {
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

// validated refuses arguments that the item does not accept. For a tool the refusal is a result with isError, because a
// model can read that and try again; for all else it is an error.
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools#error-handling
func (g *Gateway) validated(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		err := g.check(ctx, c)
		if err == nil {
			return next(ctx, c)
		}
		wrong, ok := errors.AsType[*registry.ArgumentError](err)
		switch {
		case !ok:
			return mcp.Object{}, err
		case c.tool == nil:
			return mcp.Object{}, mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS", "Invalid params: "+wrong.Text)
		}
		c.outcome = outcomeInvalid
		return mcp.ToolError(wrong.Text), nil
	}
}

// timed ends the call when the time of its item is used up. All rounds of a call share one such time, and it does not
// run while the client answers questions, because no round is under way then. Right before it begins to run, the door has
// its last word on whether the item is used.
func (g *Gateway) timed(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		if c.request.Before != nil {
			if err := c.request.Before(ctx); err != nil {
				return mcp.Object{}, err
			}
		}
		started, whole := time.Now(), cmp.Or(c.method.time, c.item.Timeout)
		if c.state != nil {
			c.spent = c.state.spent
		}
		if c.spent >= whole {
			c.noteOpen(c.params)
			return mcp.Object{}, &timeoutError{c.item.Server, whole}
		}
		limited := &c.life
		limited.Begin(ctx, started.Add(whole-c.spent))
		defer limited.Close()
		c.begun.endBy(limited)
		result, err := next(limited, c)
		c.spent += time.Since(started)
		if err != nil && ctx.Err() == nil && errors.Is(limited.Err(), context.DeadlineExceeded) {
			return mcp.Object{}, &timeoutError{c.item.Server, whole}
		}
		return result, err
	}
}

// invoke uses the item. It is the innermost handler of the chain.
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

// isUnsent tells whether err says that the server could not be reached and that nothing of this round was sent to it.
func isUnsent(err error) bool {
	if _, down := errors.AsType[*registry.DownError](err); down {
		return true
	}
	unavailable, ok := errors.AsType[*registry.UnavailableError](err)
	return ok && !unavailable.Sent
}

// noteOpen remembers the requestState under which the source keeps this call open, if it does: that shows in the place
// of the call, which somebody besides the call still holds.
func (c *call) noteOpen(from mcp.Object) {
	if c.place.shared() || c.state != nil && c.state.held {
		c.open = from.Value("requestState")
	}
}

// abandon tells the source to end the call that it keeps open for answers, because its questions will not reach the
// client. Without this, the call would hold its place until the source stops waiting by itself.
func (g *Gateway) abandon(ctx context.Context, c *call) {
	ended, end := context.WithCancel(ctx)
	end()
	c.params = c.params.Without("inputResponses").With("requestState", c.open)
	_, _ = g.guarded(ended, c, c.method.use) // its answer is only that its context has ended
}
