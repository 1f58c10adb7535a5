package directory

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// A shared session has one primary: the replica that answers its client and alone writes
// what is kept of it. The others forward. These are the roles that a replica can have in
// a session:
//
//	            initialize, or Take: the primary before is gone, or drains
//	 nothing ───────────────────────────────────────────────────────────────▶ primary
//	    │ ▲                                                                     │ another one has taken it
//	    │ └──no call and no stream is left── former, or follower ◀──────────────┘
//	    │ a client opens a stream here            ▲    │ the primary is gone: Take
//	    └─────────────────────────────────────────┘    └────────────────────────▶ primary
//
// A follower has streams of the session, or a request about a task that lives there, and
// a former primary calls that it began. Both are in the roster, and lead nothing.

// Whose finds out which replica leads the session of a request with that ticket, which is
// the caller's: this one, and then it returns the session, or the other one that it
// returns. Those denied have said that they do not. A request that was forwarded is
// answered here, if the entry says so: this replica may be about to take the session
// over. While no entry can be read, the others are asked in turn: who does not lead the
// session says so at once.
func (d *Directory) Whose(x *exchange.Exchange, t *ticket.Ticket,
	denied []replica.ID,
) (l *sessions.Session, to replica.ID, refused *exchange.Refusal) {
	ctx, c := x.Context(), x.Caller
	if !d.Shared {
		l, refused = d.findHere(ctx, t, c)
		return l, "", refused
	}
	if l := d.Roster.Find(t.Key); l != nil && l.Leader().Here {
		if refused := d.useLed(ctx, l, c); refused != forward.ErrElsewhere {
			return l, "", refused
		}
	}
	if x.Forwarded {
		l, refused = d.takenHere(ctx, t, c)
		return l, "", refused
	}
	if to := d.guess(t); to != "" && len(denied) == 0 {
		return nil, to, nil
	}
	l, to, refused, err := d.lookup(ctx, t, c, denied)
	if err == nil {
		return l, to, refused
	}
	for _, at := range d.config.Others.All() { // those that are reached come first
		if !errors.Is(err, primary.ErrNone) && !slices.Contains(denied, at) {
			return nil, at, nil
		}
	}
	return nil, "", d.unlooked(ctx, t, err)
}

// takenHere returns the session of a ticket if this replica has something of it, or is
// taking it over, and the entry says that it leads it.
func (d *Directory) takenHere(ctx context.Context, t *ticket.Ticket, c gateway.Caller) (*sessions.Session,
	*exchange.Refusal,
) {
	if _, taken := d.beingTaken.Load(t.Key); !taken && d.Roster.Find(t.Key) == nil {
		return nil, forward.ErrElsewhere
	}
	record, err := d.config.Entries.Read(ctx, keyOf(t, c))
	if err != nil || record.Primary != d.config.Others.Self() {
		return nil, forward.ErrElsewhere
	}
	l, refused, err := d.take(ctx, t, c, record)
	if err != nil {
		return nil, forward.ErrElsewhere
	}
	return l, refused
}

// keyOf names the session of a ticket, which is the caller's, in the entries.
func keyOf(t *ticket.Ticket, c gateway.Caller) primary.Key {
	return primary.Key{Tenant: c.Principal.User().TenantID, Name: t.Key.String()}
}

// guess returns the replica that most likely leads a session, if that lives and does not
// drain: as was found out before, or the one that opened the session. It costs nothing.
func (d *Directory) guess(t *ticket.Ticket) replica.ID {
	at := cmp.Or(d.hints.of(t.Key), t.OpenedBy())
	if at == d.config.Others.Self() || !d.config.Others.IsThere(at) || d.config.Others.Drains(at) {
		return ""
	}
	return at
}

// maxTakes is how often a session is tried to be taken over before others who do so at
// the same time.
const maxTakes = 3

// lookup looks the session up in the entries, and takes it over if its primary is gone,
// drains, or has denied that it leads it. An error says that there is no entry, or that
// it cannot be read.
func (d *Directory) lookup(ctx context.Context, t *ticket.Ticket, c gateway.Caller,
	denied []replica.ID,
) (*sessions.Session, replica.ID, *exchange.Refusal, error) {
	self := d.config.Others.Self()
	for range maxTakes {
		record, err := d.config.Entries.Read(ctx, keyOf(t, c))
		if err != nil {
			return nil, "", nil, err
		}
		at := record.Primary
		if at != self && !slices.Contains(denied, at) && d.config.Others.IsThere(at) &&
			!d.config.Others.Drains(at) {
			d.hints.set(t.Key, at)
			return nil, at, nil, nil
		}
		l, refused, err := d.take(ctx, t, c, record)
		switch {
		case errors.Is(err, primary.ErrFenced):
			continue
		case err != nil: // nobody knows who leads it now, so that nobody is asked
			return nil, "", d.unlooked(ctx, t, err), nil
		}
		return l, "", refused, nil
	}
	return nil, "", exchange.ErrReplicas, nil
}

// take takes a session over, once for all who want it at the same time: the last of two
// would take it from this replica, and forget which calls the former primary has.
func (d *Directory) take(ctx context.Context, t *ticket.Ticket, c gateway.Caller,
	from primary.Entry,
) (*sessions.Session, *exchange.Refusal, error) {
	type taken struct {
		session *sessions.Session
		refused *exchange.Refusal
	}
	done, err, _ := d.taking.Do(string(t.Key[:]), func() (any, error) {
		d.beingTaken.Store(t.Key, true)
		defer d.beingTaken.Delete(t.Key)
		ctx, self := context.WithoutCancel(ctx), d.config.Others.Self()
		l := d.Roster.Find(t.Key)
		if l != nil && from.Primary == self {
			if leader := l.Leader(); leader.Here && leader.Epoch == from.Epoch {
				return taken{l, d.useLed(ctx, l, c)}, nil
			}
		}
		record, err := d.config.Entries.Take(ctx, keyOf(t, c), from, self)
		if err != nil {
			return nil, err
		}
		l, refused := d.begin(ctx, t, c, record, d.formerOf(t, from))
		return taken{l, refused}, nil
	})
	if err != nil {
		return nil, nil, err
	}
	it := done.(taken)
	return it.session, it.refused, nil
}

// formerOf returns the other replica that led a session until this one took it, "" if it
// is gone or not known. A replica that did not hear that it took a session takes it
// again, from itself: most likely the opener has led it before.
func (d *Directory) formerOf(t *ticket.Ticket, from primary.Entry) replica.ID {
	former, self := from.Primary, d.config.Others.Self()
	if former == self {
		former = t.OpenedBy()
	}
	if former == self || !d.config.Others.IsThere(former) {
		return ""
	}
	return former
}

// TakeOver takes a session over whose primary is gone or drains. If another replica was
// faster, it returns that one.
func (d *Directory) TakeOver(ctx context.Context, l *sessions.Session, c gateway.Caller) (replica.ID,
	*exchange.Refusal,
) {
	t := &ticket.Ticket{
		Opener: d.opener, Key: l.Key, Opened: l.Expiry.Add(-d.config.SessionMaxAge),
		Revision: l.Client().Revision,
	}
	_, to, refused, err := d.lookup(ctx, t, c, nil)
	switch {
	case errors.Is(err, primary.ErrNone):
		refused = d.unlooked(ctx, t, err)
	case err != nil: // it is tried again each second, for thousands of sessions
		refused = exchange.ErrReplicas
	}
	return to, refused
}

// NoteLeader notes which replica leads a session; "": not the one that was believed to.
func (d *Directory) NoteLeader(t *ticket.Ticket, at replica.ID) {
	if at == "" || d.guess(t) != at {
		d.hints.set(t.Key, at)
	}
}

// unlooked returns the refusal of a session that cannot be looked up, for that error.
func (d *Directory) unlooked(ctx context.Context, t *ticket.Ticket, err error) *exchange.Refusal {
	if errors.Is(err, primary.ErrNone) {
		d.hints.set(t.Key, "")
		return d.missed(ctx, t.Key)
	}
	d.config.Guard.Log.WarnContext(ctx, "a session cannot be looked up", slog.Any("error", err))
	return exchange.ErrReplicas
}

// begin makes this replica the primary of a session that it has taken over from another,
// "" if that is gone.
func (d *Directory) begin(ctx context.Context, t *ticket.Ticket, c gateway.Caller, r primary.Entry,
	former replica.ID,
) (*sessions.Session, *exchange.Refusal) {
	l, refused := d.Enter(ctx, t, c)
	if refused != nil {
		return nil, refused
	}
	running := d.config.TellTaken(ctx, l, former, r.Epoch)
	l.BecomePrimary(r, former, running)
	d.hints.set(t.Key, "")
	d.Roster.Metrics.SessionTakenOver()
	d.config.OnTaken(l)
	return l, d.useLed(ctx, l, c)
}

// Enter returns the session of a ticket, which it adds to the roster if it is not there.
// The bounds of open apply.
func (d *Directory) Enter(ctx context.Context, t *ticket.Ticket, c gateway.Caller) (*sessions.Session,
	*exchange.Refusal,
) {
	l := d.sessionOf(t, c.Principal, true)
	l.Reach(sessions.Heard)
	if !time.Now().Before(l.Expiry) {
		return nil, sessions.Miss(ctx, sessions.EndExpired)
	}
	l, refused := d.add(ctx, l, c)
	if refused == nil {
		l.MarkUsed() // it may have been here: see Sweep
	}
	return l, refused
}

// useLed notes that a session which this replica leads is being used. It is refused as
// forward.ErrElsewhere if another has taken it over, which a replica that others may have
// taken for gone looks up once.
func (d *Directory) useLed(ctx context.Context, l *sessions.Session, c gateway.Caller) *exchange.Refusal {
	if l.Shared {
		since, leads := d.config.Others.Leads()
		switch {
		case !leads:
			return exchange.ErrReplicas
		case !l.IsSureSince(since):
			if refused := d.confirm(ctx, l, since); refused != nil {
				return refused
			}
		}
	}
	now := time.Now()
	if !l.Use(now, d.config.SessionIdle, c.Principal) {
		d.End(ctx, l, l.Lapse(now))
		return d.missed(ctx, l.Key)
	}
	if l.Shared {
		// the handshake is over: this replica opened the session, or another one did and
		// the client goes on here
		l.Reach(sessions.Ready)
	}
	return nil
}

// confirm looks up whether this replica still leads a session, after others may have
// taken it for gone. It leads anew since then.
func (d *Directory) confirm(ctx context.Context, l *sessions.Session, since time.Time) *exchange.Refusal {
	record, err := d.config.Entries.Read(ctx, l.EntryKey())
	switch {
	case errors.Is(err, primary.ErrNone):
		d.End(ctx, l, sessions.EndClosed)
		return sessions.Miss(ctx, sessions.EndClosed)
	case err != nil:
		return exchange.ErrReplicas
	case record.Primary != d.config.Others.Self() || record.Epoch != l.Leader().Epoch:
		d.Follow(l, record.Primary, record.Epoch)
		return forward.ErrElsewhere
	}
	l.Confirm(since)
	return nil
}

// Follow notes that another replica leads a session. What this one has of it goes on
// without: calls and their streams until they end. Streams for notices end, here and at
// other replicas that hold them for this one, so that their clients come back to who
// leads.
func (d *Directory) Follow(l *sessions.Session, at replica.ID, epoch uint64) {
	epochBefore, led, elsewhere := l.BecomeFollower(at, epoch)
	if led {
		d.config.LetGo(l, elsewhere, epochBefore)
	}
	d.hints.set(l.Key, at)
	l.MarkUsed()
}

// findHere returns the session of a ticket that lives on this instance alone.
func (d *Directory) findHere(ctx context.Context, t *ticket.Ticket, c gateway.Caller) (*sessions.Session,
	*exchange.Refusal,
) {
	if t.Opener != d.opener {
		return nil, sessions.Miss(ctx, sessions.LostRestart)
	}
	l := d.Roster.Find(t.Key)
	if l == nil {
		return nil, d.missed(ctx, t.Key)
	}
	return l, d.useLed(ctx, l, c)
}
