package server

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// Causes of a call's end. Whatever gives up because of them, such as a question to Redis, may return them as its error, and
// that is then told and recorded as a cancelled call.
var (
	errCancelled    = fmt.Errorf("cancelled by the client: %w", context.Canceled)
	errSessionEnded = fmt.Errorf("the session has ended: %w", context.Canceled)
)

// sessions opens, finds and ends the sessions that live on this instance. Those that live on others too are in shared.go.
type sessions struct {
	ring       *seal.Ring
	log        session.Log
	generation [generationSize]byte // of sessions that stay here: this process
	shared     bool                 // sessions of Streamable HTTP live on other replicas, too
	idle       time.Duration
	maxAge     time.Duration
	roster     *roster
	departed   *departed
	logger     *slog.Logger
	spread     spread
}

func newSessions(cfg *Config, generation [generationSize]byte, g guard) *sessions {
	ss := &sessions{
		ring: cfg.Seal, log: cfg.Log, generation: generation, shared: cfg.Shared, idle: cfg.SessionIdle, maxAge: cfg.SessionMaxAge,
		roster: newRoster(g, cfg.Memory), departed: newDeparted(), logger: g.log,
	}
	ss.spread.begin(cfg)
	return ss
}

// open makes a session for a caller, and its id. If the tenant or the user has as many sessions as it may have, the one
// that has been idle longest ends for it; if none is idle, the new one is refused.
func (ss *sessions) open(ctx context.Context, purpose string, c gateway.Caller, revision string, capabilities mcp.Object) (l *live, id string, refused *refusal, err error) {
	t := ticket{generation: ss.generation, key: newKey(), owner: c.Principal.Owner().Digest(), opened: time.Now(), revision: revision, capabilities: encodeCapabilities(capabilities)}
	shared := ss.shared && purpose == purposeSession
	if shared {
		if t.generation, _ = ss.spread.generations.now(); !ss.spread.generations.isKnown() {
			return nil, "", errReplicas, nil // the session would be lost as soon as the generation is known
		}
	}
	id, err = ss.ring.Seal(purpose, t.encode())
	if err != nil {
		return nil, "", nil, err
	}
	l, refused = ss.add(ctx, ss.liveOf(&t, c.Principal, shared), c)
	return l, id, refused, nil
}

// liveOf returns the session that a ticket describes.
func (ss *sessions) liveOf(t *ticket, p auth.Principal, shared bool) *live {
	l := &live{
		key: t.key, user: p.User(), name: t.key.String(), expiry: t.opened.Add(ss.maxAge), shared: shared,
		roster: ss.roster, revision: t.revision, capabilities: decodeCapabilities(t.capabilities), used: time.Now(),
		principal: p,
	}
	if shared {
		l.abroad = &abroad{generation: t.generation, trusted: ss.spread.doubts.Load()}
		l.news.afar = &afar{}
		l.suffix = homeMark + hex.EncodeToString(ss.generation[:]) + newKey().String()[:8]
	}
	return l
}

// add enters a session, and ends those that are evicted for it. It returns the session that has the key.
func (ss *sessions) add(ctx context.Context, l *live, c gateway.Caller) (*live, *refusal) {
	var b bounds
	b.tenant, b.user = c.Tenant.Sessions()
	entered, evicted, refused := ss.roster.add(l, b)
	ss.tellEvicted(ctx, evicted)
	for _, gone := range evicted {
		ss.departed.add(gone.key, endEvicted)
		gone.dissolve()
		ss.forgetEvents(ctx, gone)
	}
	return entered, refused
}

// find returns the session that id names, if it belongs to the caller and is alive. The client is not told why a
// session is not found: the id may be forged, unknown, of somebody else or of another instance, or the session may have
// ended or expired. Only the log tells.
func (ss *sessions) find(ctx context.Context, purpose, id string, c gateway.Caller) (*live, *refusal) {
	owner := c.Principal.Owner().Digest() // worked out for every id, so that the time does not tell a foreign one from a forged one
	t, ok := ss.openTicket(purpose, id)
	shared := ss.shared && purpose == purposeSession
	switch {
	case !ok:
		return nil, ss.unreadable(ctx)
	case t.owner != owner:
		return nil, miss(ctx, lostForeign)
	case shared:
		return ss.findShared(ctx, &t, c)
	case t.generation != ss.generation:
		return nil, miss(ctx, lostRestart)
	}
	l := ss.roster.find(t.key)
	if l == nil {
		return nil, miss(ctx, ss.departed.end(t.key))
	}
	now := time.Now()
	if !l.use(now, ss.idle, c.Principal) {
		ss.end(ctx, l, l.lapse(now))
		return nil, miss(ctx, ss.departed.end(t.key))
	}
	return l, nil
}

// unreadable returns the refusal of an id that this replica cannot open. Where a replica of a later version runs, the id may
// be one of its own: with 404 its client would throw away a session that goes on there.
func (ss *sessions) unreadable(ctx context.Context) *refusal {
	if ss.shared && ss.spread.others.IsNewerThere() {
		return errReplicas
	}
	return miss(ctx, lostUnreadable)
}

// openTicket returns the ticket that is sealed in id.
func (ss *sessions) openTicket(purpose, id string) (t ticket, ok bool) {
	room := plains.Get().(*[ticketSize]byte)
	defer plains.Put(room)
	plain, err := ss.ring.AppendOpen(room[:0], purpose, id)
	if err != nil {
		return ticket{}, false
	}
	return decodeTicket(plain)
}

// plains has room for tickets that are being read.
var plains = sync.Pool{New: func() any { return new([ticketSize]byte) }}

// of returns the session that a request names in its header.
func (ss *sessions) of(x *exchange, r *http.Request) (*live, *refusal) {
	ids := r.Header[mcp.HeaderSessionID]
	if len(ids) == 0 {
		return nil, errNoSession
	}
	if len(ids) == 1 && len(ids[0]) <= seal.MaxLength {
		return ss.find(x.context(), purposeSession, ids[0], x.caller)
	}
	return nil, errSession
}

// end ends a session: its jobs are cancelled, its streams end, and its events are forgotten. how says for the log why
// it ended. It does not tell other replicas: see delete.
func (ss *sessions) end(ctx context.Context, l *live, how string) {
	if ss.drop(l, how) {
		_ = ss.log.End(context.WithoutCancel(ctx), l.inLog()) // the log forgets old events by itself
	}
}

// drop ends a session on this instance alone. It is false if the session had ended before.
func (ss *sessions) drop(l *live, how string) bool {
	ss.roster.remove(l)
	ended := l.close()
	if ended {
		ss.departed.add(l.key, how)
	}
	if ended && l.shared && how != endIdle { // one that is idle here may come back, and its events with it
		ss.log.Forget(l.inLog())
	}
	return ended
}

// sweep ends the sessions that nobody has used for too long. A shared session is only let go of: another replica may serve
// it, and who adopts it later finds out whether one did.
func (ss *sessions) sweep(ctx context.Context) {
	now := time.Now()
	ss.roster.each(func(l *live) {
		if !l.fresh(now, ss.idle) && ss.drop(l, l.lapse(now)) {
			ss.forgetEvents(ctx, l)
		}
	})
}

// forgetEvents forgets the events of a session that ended because it was not used, or to make room. A shared session
// goes on at other replicas and may come back here, so its events are kept.
func (ss *sessions) forgetEvents(ctx context.Context, l *live) {
	if !l.shared {
		_ = ss.log.End(context.WithoutCancel(ctx), l.inLog()) // the log forgets old events by itself
	}
}
