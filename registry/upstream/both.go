package upstream

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// both is a modern server that has an older side too: sessions beside its control connection.
//
//	client                       call                        server of both eras
//	in a session, can be asked   ──▶ session of the pool ──▶ a tool asks while the call is open, or through input_required
//	any other                    ──▶ the connection      ──▶ a tool asks through input_required alone
//
// Tools that ask in the middle of a call (elicit of the Python SDK, RequestElicitation of mcp-go, Session.Elicit of the Go
// SDK, elicitInput of the npm SDK) are refused that under 2026-07-28, and what a call did before it asked cannot be taken
// back, so the era is chosen before the call and not after the refusal. The choice is that of the client: in an older
// revision it gets what it would get if it were connected to the server directly. The SDKs carry input_required over to
// their older side, where the client can be asked there at all: over HTTP that takes a session, so a server that opens
// none (the npm SDK's createMcpHandler, Python's stateless_http) has no older side here. A result that is input_required
// all the same, as the Go SDK gives in a second round, is passed on, and its repeat goes to the modern side.
//
// It would be wrong the other way round, with the modern side first: no call of a tool that asks would ever succeed, and of
// the four SDKs only Python's refusal has a code. The price is a session for each caller who can be asked, as with a server
// of the legacy era, and that a Python tool which answers with input_required by hand, without looking at the revision,
// fails as it fails without the gateway. Config.Shared and a named revision keep all calls on the modern side.
type both struct {
	*modern
	pool *pool

	mu     sync.Mutex // guards the fields below
	proven bool       // a session was opened at least once
	shut   time.Time  // until when no call goes there
}

// sideRest is how long calls keep away from a side that was there and cannot be opened now. One that never was there is
// tried again after reprobeEvery.
const sideRest = time.Minute

// forGood is longer than any connection lasts.
const forGood time.Duration = math.MaxInt64

var errOneEra = errors.New("server has no older side now")

var _ peer = (*both)(nil)

// newBoth adds an older side to a modern server, whose sessions dial opens.
func newBoth(ctx context.Context, m *modern, cfg *Config, dial opener, seen *strays) *both {
	b := &both{modern: m}
	b.pool = newPool(ctx, m.conn, m.link.Streams(), cfg, func(ctx context.Context, c *connection, capabilities mcp.Object, open *calls) (*legacy, error) {
		l, err := dial(ctx, c, capabilities, open)
		return l, b.opened(c, err)
	}, seen)
	return b
}

// opened notes whether a session could be opened. The error sends its calls to the modern side: none of them left.
func (b *both) opened(c *connection, err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.proven = true
		return nil
	}
	rest := reprobeEvery
	if b.proven {
		rest = sideRest
	}
	b.shut = time.Now().Add(rest)
	return c.server.unavailable(false, errOneEra)
}

// takes tells whether a call goes to the older side: that of a client in a session that can be asked, and the repeat of one that
// waits here. Tasks are those of the era in which the server was listed.
func (b *both) takes(i *item, c *registry.Call) bool {
	if !c.InSession || c.Capabilities.Len() == 0 || !i.asks || c.Tasks == mcp.TasksAsked || c.Task != "" {
		return false
	}
	if state := c.Params.Text("requestState"); state != "" || c.Params.Has("inputResponses") {
		return state == stateAgain || b.pool.parking.find(state) != nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !time.Now().Before(b.shut)
}

// call runs a call on the side where its client would be served if it were connected directly.
func (b *both) call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error) {
	if !b.takes(i, c) {
		return b.modern.call(ctx, i, c)
	}
	result, err := b.pool.call(ctx, i, c)
	if errors.Is(err, errOneEra) {
		return b.modern.call(ctx, i, c)
	}
	if refusedQuestion(err) && !b.pool.parking.asked.Load() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.shut = time.Now().Add(forGood) // it has sessions that cannot ask, as with Python's json_response
	}
	return result, err
}

func (b *both) sessions() int { return b.pool.room.Size() }

func (b *both) close(ctx context.Context, polite bool) {
	b.pool.close(ctx, polite)
	b.modern.close(ctx, polite)
}
