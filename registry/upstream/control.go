package upstream

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// repeatAfter is how long a lost call waits before it is made once more.
const repeatAfter = 100 * time.Millisecond

// control is the connection that lists, follows and supervises a server, from its handshake to its loss, with the peer that
// runs the calls. Offers hold on to the connection they were listed on, so a tool whose connection is gone refuses calls at
// once, even where a reader still holds an old catalogue.
type control struct {
	*connection
	peer peer
	gone atomic.Bool
}

// offers returns tools as the catalogue wants them.
func (c *control) offers(cfg *Config, tools []mcp.Object) []registry.Offer {
	offers := make([]registry.Offer, len(tools))
	for i, definition := range tools {
		offers[i] = c.offer(cfg, definition)
	}
	return offers
}

func (c *control) offer(cfg *Config, definition mcp.Object) registry.Offer {
	name := definition.Text("name")
	tasks, definition := c.tasksOf(definition)
	t := c.newItem(mcp.MethodToolsCall, name, mcp.String(name))
	t.idempotent = isIdempotent(cfg.Idempotent, name)
	asTask := *t
	asTask.asTask, asTask.idempotent = true, false // another task would be left behind
	timeout := cfg.Timeout
	if own := cfg.ToolTimeouts[name]; own > 0 {
		timeout = own
	}
	return registry.Offer{
		Definition: definition,
		Timeout:    timeout,
		Tasks:      tasks,
		Call: func(ctx context.Context, call *registry.Call) (mcp.Object, error) {
			switch {
			case call.Task != "":
				return c.call(ctx, c.newItem(call.Method, call.Task, mcp.String(call.Task)), call)
			case call.Tasks == mcp.TasksAsked && tasks == mcp.TasksAsked:
				return c.call(ctx, &asTask, call)
			}
			return c.call(ctx, t, call)
		},
	}
}

// isIdempotent tells whether the operator's patterns name the tool.
func isIdempotent(patterns []string, tool string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return registry.MatchName(pattern, tool)
	})
}

// call serves one call. Errors are of the kinds that errors.go names.
func (c *control) call(ctx context.Context, i *item, call *registry.Call) (mcp.Object, error) {
	if c.gone.Load() {
		return mcp.Object{}, c.server.unavailable(false, wire.ErrGone)
	}
	result, err := c.peer.call(ctx, i, call)
	if err != nil && c.repeats(ctx, i, call, err) {
		result, err = c.peer.call(ctx, i, call)
	}
	if err == nil {
		return result, nil
	}
	if errors.Is(err, errBusy) {
		return mcp.Object{}, err // the call never left, which the error of its deadline would not say
	}
	err = c.server.forCaller(ctx, err)
	c.judge(err)
	return mcp.Object{}, err
}

// use serves one call that is not about a tool.
func (c *control) use(ctx context.Context, call *registry.Call) (mcp.Object, error) {
	return c.call(ctx, c.itemOf(call), call)
}

// judge draws conclusions from a failed call.
func (c *control) judge(err error) {
	var answered *mcp.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case !errors.As(err, &answered), answered.Code == mcp.CodeUnsupportedVersion:
		c.Doubt()
	case answered.Code == mcp.CodeHeaderMismatch:
		c.changed()
	}
}

// end closes the connection; polite says good-bye to a server that is still there. It waits until everything that
// belongs to the connection has ended.
func (c *control) end(ctx context.Context, polite bool) {
	c.gone.Store(true)
	c.peer.close(ctx, polite)
}

func (c *control) newItem(method, name string, quoted mcp.RawJSON) *item {
	i := &item{method: method, name: name, quoted: quoted, revision: c.version, asks: mayAsk(method)}
	c.peer.prepare(i)
	return i
}

// itemOf returns the item of a call that is not about a tool.
func (c *control) itemOf(call *registry.Call) *item {
	quoted := mcp.String(call.Target)
	if call.Method == mcp.MethodComplete {
		ref, member := call.Params.Object("ref"), "name"
		if ref.Text("type") == "ref/resource" {
			member = "uri"
		}
		quoted = ref.With(member, quoted).JSON()
	}
	return c.newItem(call.Method, call.Target, quoted)
}

// repeats tells whether a call that failed with err is to be made once more: when nothing of it left, or when the
// operator says that making it twice does no harm. What a server refused, it would refuse again, and a call that already
// asked its user something does not ask twice.
func (c *control) repeats(ctx context.Context, i *item, call *registry.Call, err error) bool {
	var (
		refused  *wire.StatusError
		unknown  *wire.SessionError
		answered *mcp.Error
	)
	unavailable, lost := errors.AsType[*registry.UnavailableError](err)
	switch {
	case !lost, c.gone.Load(), call.Params.Has("requestState"),
		errors.As(err, &refused) && refused.Status < http.StatusInternalServerError,
		errors.As(err, &answered), errors.As(err, &unknown), errors.Is(err, errBusy), errors.Is(err, errCrowded), errors.Is(err, errTasks):
		return false
	}
	return (i.idempotent || !unavailable.Sent) && pace.Wait(ctx, repeatAfter)
}
