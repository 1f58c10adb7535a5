package upstream

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// side is the older side of a modern server that speaks both eras: sessions beside its control connection.
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
type side struct {
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

var (
	errOneEra    = errors.New("server has no older side now")
	errStateless = errors.New("server opens no session")
)

// newSide returns the older side of a modern server, nil when no call may go there.
func (u *Upstream) newSide(ctx context.Context, c *connection, m *modern) *side {
	if u.cfg.named() != 0 || u.cfg.Shared {
		return nil
	}
	s := &side{}
	control := &legacy{conn: c, link: m.link} // runs nothing: what a pool knows of its server
	s.pool = newPool(ctx, control, u.cfg, func(ctx context.Context, c *connection, capabilities mcp.Object, open *calls) (*legacy, error) {
		l, err := u.openSide(ctx, c, capabilities, open)
		u.tellWords(ctx, c, err)
		return l, s.opened(c, err)
	}, &u.strays)
	return s
}

// openSide opens one session under the older era. Unlike openAs it finds out nothing that is remembered.
func (u *Upstream) openSide(ctx context.Context, c *connection, capabilities mcp.Object, open *calls) (*legacy, error) {
	ctx, cancel := context.WithTimeout(ctx, u.cfg.openLimit())
	defer cancel()
	link, err := u.dial(ctx, c, kindLegacy)
	if err != nil {
		return nil, err
	}
	l, err := openLegacy(ctx, c, link, &u.cfg, capabilities, open)
	if web, ok := link.(*wire.HTTP); ok && err == nil && web.SessionID() == "" {
		err = errStateless
	}
	if err != nil {
		link.Close(ctx, false)
		return nil, err
	}
	l.both = true
	return l, nil
}

// opened notes whether a session could be opened. The error sends its calls to the modern side: none of them left.
func (s *side) opened(c *connection, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.proven = true
		return nil
	}
	rest := reprobeEvery
	if s.proven {
		rest = sideRest
	}
	s.shut = time.Now().Add(rest)
	return c.server.unavailable(false, errOneEra)
}

// takes tells whether a call goes to this side: that of a client in a session that can be asked, and the repeat of one that
// waits here. Tasks are those of the era in which the server was listed.
func (s *side) takes(i *item, c *registry.Call) bool {
	if s == nil || !c.InSession || c.Capabilities.Len() == 0 || !mayAsk(i.method) || c.Tasks == mcp.TasksAsked || c.Task != "" {
		return false
	}
	if state := c.Params.Text("requestState"); state != "" || c.Params.Has("inputResponses") {
		return state == stateAgain || s.pool.parking.find(state) != nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !time.Now().Before(s.shut)
}

// call runs a call on this side. done is false when it did not leave because there is no such side.
func (s *side) call(ctx context.Context, i *item, c *registry.Call) (result mcp.Object, done bool, err error) {
	result, err = s.pool.call(ctx, i, c)
	if errors.Is(err, errOneEra) {
		return result, false, nil
	}
	if refusedQuestion(err) && !s.pool.parking.asked.Load() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.shut = time.Now().Add(forGood) // it has sessions that cannot ask, as with Python's json_response
	}
	return result, true, err
}

// refusedQuestion tells whether a server answered a call as the Python SDK does when its tool asks where it cannot: the
// call itself was well formed. The refusals of mcp-go and of the SDKs for Go and npm have no code of their own.
func refusedQuestion(err error) bool {
	var answered *mcp.Error
	return errors.As(err, &answered) && answered.Code == mcp.CodeInvalidRequest
}

// advice is what an operator reads when a modern server refused a question of its own tool.
const advice = "it refused a call with -32600, as a server does whose tool asks its user in the middle of a call, for which " +
	mcp.LatestModern + " has no way; if it also serves an older revision in sessions, say revision: " + mcp.LatestLegacy

// unasked notes that a call of a caller who can be asked ended with such a refusal.
func (c *connection) unasked(i *item, call *registry.Call, err error) {
	if refusedQuestion(err) && call.Capabilities.Len() > 0 && mayAsk(i.method) && mcp.EraOf(c.version) == mcp.Modern {
		signal(c.refusals)
	}
}

// advise tells the operator what mends such refusals: in the status as long as this connection lasts, in the log once.
func (u *Upstream) advise(ctx context.Context) {
	u.mu.Lock()
	told, logged := u.status.Advice != "", u.advised
	u.advised, u.status.Advice = true, advice
	status := u.status
	u.mu.Unlock()
	if !told {
		u.cfg.Status(status)
	}
	if !logged {
		u.cfg.Logger.WarnContext(ctx, "server cannot ask", slog.String("advice", advice))
	}
}
