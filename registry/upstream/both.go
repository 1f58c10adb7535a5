package upstream

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// both is a server of both eras: a modern control connection, and beside it sessions in
// an older revision (the older side).
//
//	client                       call                       server of both eras
//	in a session, can be asked   ──▶ session of the pool ──▶ a tool asks during the call, or by input_required
//	any other                    ──▶ the connection      ──▶ a tool asks by input_required alone
//
// Why there must be two sides: tools that ask in the middle of a call (elicit of the
// Python SDK, RequestElicitation of mcp-go, Session.Elicit of the Go SDK, elicitInput of
// the npm SDK) are refused that under 2026-07-28. What such a call did before it asked
// cannot be taken back, so the era is chosen before the call and not after the refusal.
// The choice follows the client: a client of an older revision gets what it would get if
// it were connected to the server directly. The SDKs carry input_required over to their
// older side, wherever the client can be asked there at all. Over HTTP that takes a
// session, so a server that opens none (the npm SDK's createMcpHandler, Python's
// stateless_http) counts here as one without an older side. If a result is input_required
// all the same, as the Go SDK's is in a second round, it is passed on, and its repeat
// goes to the modern side.
//
// The other order, with the modern side first, would be wrong: no call of a tool that
// asks in the middle would ever succeed, and of the four SDKs only Python's refusal has a
// code by which it could be recognized. The price of this order is a session for each
// caller who can be asked, as with a legacy server. Besides, a Python tool that returns
// input_required by hand, without looking at the revision, fails here as it fails without
// the gateway. Config.Shared and a named revision keep all calls on the modern side.
type both struct {
	withPool

	proven atomic.Bool // a session of the older side was opened at least once
	// until then no call goes to the older side; nil: calls may
	shut atomic.Pointer[time.Time]
}

// sideRest is how long calls keep away from an older side that cannot be opened now, and
// that was there before or may be there (isAway). Any other that never could be opened is
// tried again after reprobeEvery.
const sideRest = time.Minute

// forGood is longer than any connection lasts.
const forGood time.Duration = math.MaxInt64

var errOneEra = errors.New("server has no older side now")

var _ peer = (*both)(nil)

// newBoth adds an older side to a modern server. dial opens the sessions of that side;
// seen are the stray questions of the server.
func newBoth(ctx context.Context, m *modern, dial opener, seen *strays) *both {
	b := &both{withPool: withPool{peer: m}}
	b.pool = newPool(ctx, m.conn, m.link.Streams(), func(ctx context.Context, c *connection,
		capabilities mcp.Object, open *calls,
	) (*legacy, error) {
		l, err := dial(ctx, c, capabilities, open)
		return l, b.opened(c, err)
	}, seen)
	return b
}

// opened notes whether a session of the older side could be opened. When it could not,
// the error that it returns sends the call to the modern side, which is safe because
// nothing of the call has left yet.
func (b *both) opened(c *connection, err error) error {
	if err == nil {
		b.proven.Store(true)
		return nil
	}
	switch {
	case credential.FaultOf(err) != "" && c.owner != nil && c.cfg.Credential.Personal(c.owner.TenantID):
		// its owner's alone: others may have one that will do
	case b.proven.Load(), b.isAway(err):
		b.shutFor(sideRest)
	default:
		b.shutFor(reprobeEvery)
	}
	return c.server.unavailable(false, errOneEra)
}

// isAway tells whether an error says nothing of whether there is an older side: the
// server cannot be reached at the moment, or refuses whatever it is asked. Its silence
// says that there is none, and so does the end of a child.
func (b *both) isAway(err error) bool {
	if status, ok := errors.AsType[*wire.StatusError](err); ok {
		return saysNothingOfEras(status)
	}
	_, lost := errors.AsType[*registry.UnavailableError](err)
	return lost && b.pool.streams && !errors.Is(err, errSilent)
}

// shutFor keeps calls from the older side for so long.
func (b *both) shutFor(rest time.Duration) {
	until := time.Now().Add(rest)
	b.shut.Store(&until)
}

// takes tells whether a call goes to the older side: the call of a client in a session
// that can be asked, or the repeat of a call that is parked here. Tasks always go to the
// modern side, because the tools were listed there.
func (b *both) takes(i *item, c *registry.Call) bool {
	if !c.InSession || c.Capabilities.Len() == 0 || !i.asks || c.Tasks != 0 || c.Task != "" {
		return false
	}
	if state := c.Params.Text("requestState"); state != "" || c.Params.Has("inputResponses") {
		return state == stateAgain || b.pool.parking.find(state) != nil
	}
	until := b.shut.Load()
	return until == nil || !time.Now().Before(*until)
}

// call runs a call on the side that would serve its client if the client were connected
// to the server directly.
func (b *both) call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	if !b.takes(i, c) {
		return b.peer.call(ctx, i, c)
	}
	result, err := b.pool.call(ctx, i, c)
	if errors.Is(err, errOneEra) {
		return b.peer.call(ctx, i, c)
	}
	if refusedQuestion(err) && !b.pool.parking.asked.Load() {
		b.shutFor(forGood) // its sessions cannot ask, as with Python's json_response
	}
	return result, err
}
