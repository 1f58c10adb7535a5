package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/seats"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// repeatAfter is how long the gateway waits before it makes a lost call once more.
const repeatAfter = 100 * time.Millisecond

// control is the connection over which a server is listed, followed and supervised, from
// its handshake to its loss, together with the peer that runs the calls. An offer in the
// catalogue keeps the control connection on which it was listed. So a tool whose
// connection is gone refuses calls at once, even where a request still holds an old
// catalogue. A call that it had not sent when it was lost is refused as those are that
// come while the server is down: the client is told that nothing was sent, and when to
// come again. There is no other seat for it, and the server may not come back.
type control struct {
	*connection
	peer  peer
	asked *inquiry // whose answer may still come; nil: there is none
	gone  atomic.Bool
}

// offers returns the definitions of tools in the form that the catalogue takes.
func (c *control) offers(tools []mcp.Object) []registry.Offer {
	offers := make([]registry.Offer, len(tools))
	for i, definition := range tools {
		offers[i] = c.offer(definition)
	}
	return offers
}

func (c *control) offer(definition mcp.Object) registry.Offer {
	name := definition.Text("name")
	tasks, definition := c.tasksOf(definition)
	t := c.newItem(mcp.MethodToolsCall, name, mcp.String(name))
	t.idempotent = slices.ContainsFunc(c.cfg.Idempotent,
		func(pattern string) bool { return registry.MatchName(pattern, name) })
	asTask := *t
	asTask.asTask, asTask.idempotent = true, false // a second call would leave the first one's task behind
	return registry.Offer{
		Definition: definition,
		Timeout:    cmp.Or(c.cfg.ToolTimeouts[name], c.cfg.Timeout),
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

// call runs one call, and once more where repeats says so. Its errors are of the kinds
// that errors.go names.
func (c *control) call(ctx context.Context, i *item, call *registry.Call) (mcp.Object, error) {
	if c.gone.Load() {
		return mcp.Object{}, c.server.unavailable(false, wire.ErrGone)
	}
	text, err := reserveToSend(call)
	if err != nil {
		return mcp.Object{}, err
	}
	defer text.Release()
	result, err := c.peer.call(ctx, i, call)
	if err != nil && c.repeats(ctx, i, call, err) {
		result, err = c.peer.call(ctx, i, call)
	}
	if err == nil {
		return result, nil
	}
	if errors.Is(err, seats.ErrLate) {
		// keeps the fact that the call never left, which the error of its deadline would
		// hide
		return mcp.Object{}, err
	}
	err = c.server.forCaller(ctx, err)
	c.judge(err)
	return mcp.Object{}, err
}

// reserveToSend returns a reservation that holds the text in which a call is sent, a
// second copy of its params. It is nil for what is covered. The error is one of package
// share; then nothing was sent.
func reserveToSend(call *registry.Call) (*share.Reservation, error) {
	size := call.Params.Size()
	if size <= share.Covered {
		return nil, nil
	}
	text := call.Memory.Another()
	if err := text.Resize(int64(size)); err != nil {
		return nil, fmt.Errorf("hold the request: %w", err)
	}
	return text, nil
}

// use runs one call that is not about a tool.
func (c *control) use(ctx context.Context, call *registry.Call) (mcp.Object, error) {
	return c.call(ctx, c.itemOf(call), call)
}

// end closes the connection and waits until everything that belongs to it has ended.
// polite: the server is still there, so it is told.
func (c *control) end(ctx context.Context, polite bool) {
	c.gone.Store(true)
	c.peer.close(ctx, polite)
	if c.asked != nil {
		<-c.asked.answered // its connection is closed
	}
}

// newItem returns a prepared item. quoted is what stands in the params of a call; see
// item.
func (c *control) newItem(method, name string, quoted mcp.RawJSON) *item {
	i := &item{method: method, name: name, quoted: quoted, revision: c.version}
	i.asks = mcp.MethodOf(method).Asks
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

// repeats tells whether a call that failed with err is made once more: when nothing of it
// left the gateway, or when the operator says that making it twice does no harm. What the
// server refused it would refuse again, so that is not repeated; neither is a call that
// already asked its user something, because nobody should be asked twice. It waits for
// repeatAfter before it says yes, and returns false when ctx ends meanwhile.
func (c *control) repeats(ctx context.Context, i *item, call *registry.Call, err error) bool {
	var (
		refused  *wire.StatusError
		unknown  *wire.SessionError
		answered *mcp.Error
	)
	unavailable, lost := errors.AsType[*registry.UnavailableError](err)
	switch {
	case !lost, unavailable.Credential != "", c.gone.Load(), call.Params.Has("requestState"),
		errors.As(err, &refused) && refused.Status < http.StatusInternalServerError,
		errors.As(err, &answered), errors.As(err, &unknown), errors.Is(err, seats.ErrLate),
		errors.Is(err, errCrowded), errors.Is(err, errTasks):
		return false
	}
	return (i.idempotent || !unavailable.Sent) && pace.Wait(ctx, repeatAfter)
}
