package legacy

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
	"github.com/drawbridge-mcp/drawbridge/server/session"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// directory opens, finds and ends the sessions that live on this instance. Which replica
// leads one is found out in primary.go.
type directory struct {
	ring      *seal.Ring
	log       session.Log
	opener    [ticket.OpenerSize]byte // this process
	shared    bool                    // sessions of Streamable HTTP have a record that other replicas know
	records   primary.Store           // nil: there are no others
	others    replica.Others
	idle      time.Duration
	maxAge    time.Duration
	roster    *sessions.Roster
	ended     *sessions.Ended
	logger    *slog.Logger
	hints     hints
	rewriting chan struct{} // holds a value if records may be lost

	// Set once by the server. What else is to be done of a session that this replica has
	// taken over: onTaken; tellTaken tells the replica that led it before, "" if that is
	// gone, and returns the requests that it answers; takeStranded looks for sessions
	// with streams here whose primary is gone.
	onTaken      func(l *sessions.Session)
	tellTaken    func(ctx context.Context, l *sessions.Session, former replica.ID, epoch uint64) map[mcp.ID]bool
	takeStranded func(ctx context.Context)
	// letGoAll tells replicas that hold streams of a session that this one leads it no
	// more.
	letGoAll func(l *sessions.Session, at map[string]replica.ID, epoch uint64)

	mu      sync.Mutex             // guards the field below
	unended map[primary.Key]uint64 // epochs of records that are yet to be removed
}

func newDirectory(cfg *Config, opener [ticket.OpenerSize]byte, g exchange.Guard, onNews func(*sessions.Session)) *directory {
	ss := &directory{
		ring: cfg.Seal, log: cfg.Log, opener: opener, shared: cfg.Records != nil, records: cfg.Records,
		others: cfg.Others,
		idle:   cfg.SessionIdle, maxAge: cfg.SessionMaxAge, roster: sessions.NewRoster(g, cfg.Memory, onNews),
		ended: sessions.NewEnded(), logger: g.Log,
		rewriting: make(chan struct{}, 1), unended: make(map[primary.Key]uint64),
	}
	if ss.shared {
		cfg.Records.OnLoss(ss.rewriteAll)
	}
	return ss
}

// open makes a session for a caller, and its id. If the tenant or the user has as many
// sessions as it may have, the one that has been idle longest ends for it; if none is
// idle, the new one is refused. A shared one is recorded by record.
func (ss *directory) open(ctx context.Context, purpose string, c gateway.Caller,
	agreed ticket.Terms,
) (l *sessions.Session, id string, refused *exchange.Refusal, err error) {
	t := ticket.Ticket{
		Opener: ss.opener, Key: ticket.NewKey(), Owner: c.Principal.Owner().Digest(), Opened: time.Now(),
		Revision: agreed.Revision, Capabilities: ticket.EncodeCapabilities(agreed.Capabilities),
		Extensions: agreed.Extensions,
	}
	id, err = ss.ring.Seal(purpose, t.Encode())
	if err != nil {
		return nil, "", nil, err
	}
	l = ss.liveOf(&t, c.Principal, ss.shared && purpose == ticket.Session)
	l.BeginLeading(primary.Epoch())
	l, refused = ss.add(ctx, l, c)
	return l, id, refused, nil
}

// liveOf returns the session that a ticket describes.
func (ss *directory) liveOf(t *ticket.Ticket, p auth.Principal, shared bool) *sessions.Session {
	return sessions.New(ss.roster, t, p, ss.opener, ss.maxAge, shared)
}

// add enters a session, and ends those that are evicted for it. It returns the session
// that has the key.
func (ss *directory) add(ctx context.Context, l *sessions.Session, c gateway.Caller) (*sessions.Session, *exchange.Refusal) {
	tenant, user := c.Tenant.Sessions()
	entered, evicted, refused := ss.roster.Add(l, sessions.Bounds{Tenant: tenant, User: user})
	ss.tellEvicted(ctx, evicted)
	for _, gone := range evicted {
		ss.ended.Add(gone.Key, sessions.EndEvicted)
		gone.Discard()
		ss.forget(ctx, gone)
		ss.forgetEvents(gone)
	}
	return entered, refused
}

// find returns the session over HTTP+SSE that id names, if it belongs to the caller and
// is alive. The client is not told why a session is not found: the id may be forged,
// unknown, of somebody else or of another instance, or the session may have ended or
// expired. Only the log tells.
func (ss *directory) find(ctx context.Context, purpose, id string, c gateway.Caller) (*sessions.Session, *exchange.Refusal) {
	t, refused := ss.ticketOf(ctx, purpose, id, c)
	if refused != nil {
		return nil, refused
	}
	return ss.findHere(ctx, t, c)
}

// findHere returns the session of a ticket that lives on this instance alone.
func (ss *directory) findHere(ctx context.Context, t *ticket.Ticket, c gateway.Caller) (*sessions.Session, *exchange.Refusal) {
	if t.Opener != ss.opener {
		return nil, miss(ctx, sessions.LostRestart)
	}
	l := ss.roster.Find(t.Key)
	if l == nil {
		return nil, miss(ctx, ss.ended.Why(t.Key))
	}
	return l, ss.useLed(ctx, l, c)
}

// ticketOf returns the ticket that is sealed in id, if it is the caller's.
func (ss *directory) ticketOf(ctx context.Context, purpose, id string, c gateway.Caller) (*ticket.Ticket, *exchange.Refusal) {
	// worked out for every id, so that the time does not tell a foreign one from a forged
	// one
	owner := c.Principal.Owner().Digest()
	t, ok := ss.openTicket(purpose, id)
	switch {
	case !ok:
		return nil, ss.unreadable(ctx)
	case t.Owner != owner:
		return nil, miss(ctx, sessions.LostForeign)
	}
	return &t, nil
}

// unreadable returns the refusal of an id that this replica cannot open. Where a replica
// of a later version runs, the id may be one of its own: with 404 its client would throw
// away a session that goes on there.
func (ss *directory) unreadable(ctx context.Context) *exchange.Refusal {
	if ss.shared && ss.others.IsNewerThere() {
		return exchange.ErrReplicas
	}
	return miss(ctx, sessions.LostUnreadable)
}

// openTicket returns the ticket that is sealed in id.
func (ss *directory) openTicket(purpose, id string) (t ticket.Ticket, ok bool) {
	room := plains.Get().(*[ticket.Size]byte)
	defer plains.Put(room)
	plain, err := ss.ring.AppendOpen(room[:0], purpose, id)
	if err != nil {
		return ticket.Ticket{}, false
	}
	return ticket.Decode(plain)
}

// plains has room for tickets that are being read.
var plains = sync.Pool{New: func() any { return new([ticket.Size]byte) }}

// of returns the ticket of the session that a request names in its header.
func (ss *directory) of(x *exchange.Exchange, r *http.Request) (*ticket.Ticket, *exchange.Refusal) {
	ids := r.Header[mcp.HeaderSessionID]
	if len(ids) == 0 {
		return nil, exchange.ErrNoSession
	}
	if len(ids) == 1 && len(ids[0]) <= seal.MaxLength {
		return ss.ticketOf(x.Context(), ticket.Session, ids[0], x.Caller)
	}
	return nil, exchange.ErrSession
}

// end ends a session: its jobs are cancelled, its streams end, and its events and its
// record are forgotten. how says for the log why it ended.
func (ss *directory) end(ctx context.Context, l *sessions.Session, how string) {
	if ss.drop(l, how) {
		ss.forget(ctx, l)
		ss.letGoEnded(l)
	}
}

// letGoEnded has other replicas let go of what they hold of a session that has ended.
func (ss *directory) letGoEnded(l *sessions.Session) {
	if l.Shared && l.IsLeading() {
		ss.letGoAll(l, l.StreamsAt(), endedEpoch)
	}
}

// drop ends a session on this instance alone. It is false if the session had ended
// before.
func (ss *directory) drop(l *sessions.Session, how string) bool {
	ss.roster.Remove(l)
	ended := l.Close()
	if ended && l.IsLeading() {
		ss.ended.Add(l.Key, how)
		ss.forgetEvents(l)
	}
	return ended
}

// sweep ends the sessions that nobody has used for too long. One that another replica
// leads is only let go of.
func (ss *directory) sweep(ctx context.Context) {
	now := time.Now()
	ss.forEach(ctx, func(l *sessions.Session) bool { return !l.Fresh(now, ss.idle) || !l.IsLeading() && !l.IsBusy() },
		func(l *sessions.Session) {
			if _, leads := ss.others.Leads(); leads || !l.Shared {
				ss.end(ctx, l, l.Lapse(now))
			}
		})
}

// forgetEvents forgets the events of a session that has ended, once the calls that are
// still answered have their streams.
func (ss *directory) forgetEvents(l *sessions.Session) {
	if l.WhenCalm(func() { ss.log.End(l.InLog()) }) {
		ss.log.End(l.InLog())
	}
}

// guest returns a session for what this replica has of it, a question or a task, whoever
// leads it.
func (ss *directory) guest(ctx context.Context, t *ticket.Ticket, c gateway.Caller) (*sessions.Session, *exchange.Refusal) {
	if !ss.shared {
		return ss.findHere(ctx, t, c)
	}
	if l := ss.roster.Find(t.Key); l != nil && !l.IsOver() {
		if !l.IsLeading() {
			return l, nil
		}
		if refused := ss.useLed(ctx, l, c); refused != forward.ErrElsewhere {
			return l, refused
		}
	}
	l := ss.liveOf(t, c.Principal, true)
	l.Begin()
	switch _, err := ss.records.Look(ctx, l.InRecord()); {
	case errors.Is(err, primary.ErrNone):
		return nil, miss(ctx, ss.ended.Why(t.Key))
	case err != nil:
		return nil, exchange.ErrReplicas
	}
	return l, nil
}

// judge ends the sessions whose callers are not accepted any more, and of the others the
// subscriptions that they may not have any more. It returns how many sessions it ended,
// and which subscriptions. A session whose token would be accepted, but whose tenant this
// replica does not serve at the moment, ends here alone: others may serve it, and this
// one later.
func (ss *directory) judge(ctx context.Context, resolve func(auth.Principal) (gateway.Caller, bool),
	judge func(auth.Principal) error,
) (ended int, given []sessions.Revoked) {
	var gone []*sessions.Session
	ss.roster.Each(func(l *sessions.Session) {
		principal := l.LastPrincipal()
		caller, ok := resolve(principal)
		if ok {
			given = append(given, l.Judge(caller)...)
			return
		}
		if ss.drop(l, exchange.OutcomeRevoked) {
			ended++
			if judge(exchange.Unexpired(principal)) != nil {
				gone = append(gone, l)
			}
		}
	})
	for _, l := range gone { // last, because the records may be far away
		ss.forget(ctx, l)
	}
	return ended, given
}
