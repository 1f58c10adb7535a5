package legacy

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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
// A follower has streams of the session, and a former primary calls that it began. Both
// are in the roster, and lead nothing.

// hints are where sessions were found that their openers do not lead. It is safe for
// concurrent use.
type hints struct {
	mu    sync.Mutex // guards the fields below
	known map[ticket.Key]replica.ID
}

// maxHints is how many there are. When there are more, some are forgotten: to look costs
// one round trip.
const maxHints = 10_000

func (h *hints) of(key ticket.Key) replica.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known[key]
}

// set notes where a session is, or with "" that this is not known.
func (h *hints) set(key ticket.Key, at replica.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at == "" {
		delete(h.known, key)
		return
	}
	if h.known == nil {
		h.known = make(map[ticket.Key]replica.ID)
	}
	for some := range h.known {
		if len(h.known) < maxHints {
			break
		}
		delete(h.known, some)
	}
	h.known[key] = at
}

// whose finds out which replica leads the session of a ticket, which is the caller's:
// this one, and then it returns the session, or the other one that it returns. denied has
// said that it does not; "": none has. A request that was forwarded is looked for here
// alone.
func (ss *directory) whose(ctx context.Context, t *ticket.Ticket, c gateway.Caller,
	denied replica.ID,
) (l *sessions.Session, to replica.ID, refused *exchange.Refusal) {
	if !ss.shared {
		l, refused = ss.findHere(ctx, t, c)
		return l, "", refused
	}
	if l := ss.roster.Find(t.Key); l != nil && l.IsLeading() {
		if refused := ss.useLed(ctx, l, c); refused != forward.ErrElsewhere {
			return l, "", refused
		}
	}
	if x := exchange.FromContext(ctx); x != nil && x.Forwarded {
		return nil, "", forward.ErrElsewhere
	}
	if denied == "" {
		if to := ss.guess(t); to != "" {
			return nil, to, nil
		}
	}
	return ss.look(ctx, t, c, denied)
}

// guess returns the replica that most likely leads a session, if that lives and does not
// drain: as was found out before, or the one that opened the session. It costs nothing.
func (ss *directory) guess(t *ticket.Ticket) replica.ID {
	at := ss.hints.of(t.Key)
	if at == "" {
		at = t.OpenedBy()
	}
	if at == ss.others.Self() || !ss.others.IsThere(at) || ss.others.Drains(at) {
		return ""
	}
	return at
}

// maxTakes is how often a session is tried to be taken over before others who do so at
// the same time.
const maxTakes = 3

// look looks the session up in the records, and takes it over if its primary is gone or
// drains.
func (ss *directory) look(ctx context.Context, t *ticket.Ticket, c gateway.Caller,
	denied replica.ID,
) (*sessions.Session, replica.ID, *exchange.Refusal) {
	key, self := primary.Key{Tenant: c.Principal.User().TenantID, Name: t.Key.String()}, ss.others.Self()
	for range maxTakes {
		record, err := ss.records.Look(ctx, key)
		if err != nil {
			return nil, ss.unlooked(t, denied, err), ss.refusalOf(ctx, t, denied, err)
		}
		at := record.Primary
		if at != self && at != denied && ss.others.IsThere(at) && !ss.others.Drains(at) {
			ss.hints.set(t.Key, at)
			return nil, at, nil
		}
		taken, err := ss.records.Take(ctx, key, record, self)
		switch {
		case errors.Is(err, primary.ErrFenced):
			continue
		case err != nil:
			return nil, "", ss.refusalOf(ctx, t, denied, err)
		}
		if !ss.others.IsThere(at) {
			at = ""
		}
		l, refused := ss.begin(ctx, t, c, taken, at)
		return l, "", refused
	}
	return nil, "", exchange.ErrReplicas
}

// unlooked returns the replica that is asked for a session because it cannot be looked
// up: the one that opened it, also if that drains. It is "" if that was asked, or is not
// there.
func (ss *directory) unlooked(t *ticket.Ticket, denied replica.ID, err error) replica.ID {
	at := t.OpenedBy()
	if errors.Is(err, primary.ErrNone) || at == denied || at == ss.others.Self() || !ss.others.IsThere(at) {
		return ""
	}
	return at
}

// refusalOf returns the refusal for an error of the records.
func (ss *directory) refusalOf(ctx context.Context, t *ticket.Ticket, denied replica.ID, err error) *exchange.Refusal {
	switch {
	case errors.Is(err, primary.ErrNone):
		ss.hints.set(t.Key, "")
		return miss(ctx, ss.ended.Why(t.Key))
	case ss.unlooked(t, denied, err) != "":
		return nil
	}
	ss.logger.WarnContext(ctx, "a session cannot be looked up", slog.Any("error", err))
	return exchange.ErrReplicas
}

// begin makes this replica the primary of a session that it has taken over from another,
// "" if that is gone.
func (ss *directory) begin(ctx context.Context, t *ticket.Ticket, c gateway.Caller, r primary.Record,
	former replica.ID,
) (*sessions.Session, *exchange.Refusal) {
	l, refused := ss.enter(ctx, t, c)
	if refused != nil {
		return nil, refused
	}
	running := ss.tellTaken(ctx, l, former, r.Epoch)
	l.BecomePrimary(r, former, running)
	ss.hints.set(t.Key, "")
	ss.roster.Metrics.SessionAdopted()
	ss.onTaken(l)
	return l, ss.useLed(ctx, l, c)
}

// enter returns the session of a ticket, which it adds to the roster if it is not there.
// The bounds of open apply.
func (ss *directory) enter(ctx context.Context, t *ticket.Ticket, c gateway.Caller) (*sessions.Session, *exchange.Refusal) {
	l := ss.liveOf(t, c.Principal, true)
	l.SetHeard()
	if !time.Now().Before(l.Expiry) {
		return nil, miss(ctx, sessions.EndExpired)
	}
	return ss.add(ctx, l, c)
}

// useLed notes that a session which this replica leads is being used. It is refused as
// forward.ErrElsewhere if another has taken it over, which a replica that others may have
// taken for gone looks up once.
func (ss *directory) useLed(ctx context.Context, l *sessions.Session, c gateway.Caller) *exchange.Refusal {
	if l.Shared {
		since, leads := ss.others.Leads()
		switch {
		case !leads:
			return exchange.ErrReplicas
		case !l.LeadsSince(since):
			if refused := ss.confirm(ctx, l); refused != nil {
				return refused
			}
		}
	}
	now := time.Now()
	if !l.Use(now, ss.idle, c.Principal) {
		ss.end(ctx, l, l.Lapse(now))
		return miss(ctx, ss.ended.Why(l.Key))
	}
	if l.Shared {
		// the handshake is over: this replica opened the session, or another one did and
		// the client goes on here
		l.Begin()
	}
	return nil
}

// confirm looks up whether this replica still leads a session, after others may have
// taken it for gone.
func (ss *directory) confirm(ctx context.Context, l *sessions.Session) *exchange.Refusal {
	now := time.Now()
	record, err := ss.records.Look(ctx, l.InRecord())
	switch {
	case errors.Is(err, primary.ErrNone):
		ss.drop(l, sessions.EndClosed)
		return miss(ctx, sessions.EndClosed)
	case err != nil:
		return exchange.ErrReplicas
	case record.Primary != ss.others.Self() || record.Epoch != l.Epoch():
		ss.follow(l, record.Primary, record.Epoch)
		return forward.ErrElsewhere
	}
	l.Confirm(now)
	return nil
}

// follow notes that another replica leads a session. What this one has of it goes on
// without: calls and their streams until they end. Streams for notices end, here and at
// other replicas that hold them for this one, so that their clients come back to who
// leads.
func (ss *directory) follow(l *sessions.Session, at replica.ID, epoch uint64) {
	epochBefore, led, elsewhere := l.BecomeFollower(at, epoch)
	if led {
		ss.letGoAll(l, elsewhere, epochBefore)
	}
	ss.hints.set(l.Key, at)
	l.Rested()
}

// record writes the record of a session that has just been opened. What cannot be written
// now is written later.
func (ss *directory) record(ctx context.Context, l *sessions.Session) {
	if !l.Shared {
		return
	}
	err := ss.records.Open(context.WithoutCancel(ctx), l.InRecord(), primary.Record{
		Primary: ss.others.Self(),
		Epoch:   l.Epoch(), Facts: l.Facts(),
	})
	if err != nil {
		ss.logger.WarnContext(ctx, "a session is not recorded yet", slog.Any("error", err))
		l.SetUnwritten(true)
	}
}

// keep writes a fact of a session that this replica leads; the text "" forgets it. What
// cannot be written now is written later, together with all else.
func (ss *directory) keep(ctx context.Context, l *sessions.Session, name, text string) {
	if !l.Shared {
		return
	}
	r := primary.Record{Primary: ss.others.Self(), Epoch: l.Epoch(), Facts: map[string]string{name: text}}
	switch err := ss.records.Keep(context.WithoutCancel(ctx), l.InRecord(), r); {
	case errors.Is(err, primary.ErrFenced):
		ss.superseded(l)
	case err != nil:
		ss.logger.DebugContext(ctx, "a fact of a session is not kept yet", slog.Any("error", err))
		l.SetUnwritten(true)
	}
}

// superseded notes that another replica leads a session; which one is found out when it
// matters.
func (ss *directory) superseded(l *sessions.Session) { ss.follow(l, "", l.Epoch()) }

// delete ends a session for its client. If its record cannot be removed, nothing has
// happened: no session is served any more after its end was answered.
func (ss *directory) delete(ctx context.Context, l *sessions.Session) *exchange.Refusal {
	ctx = context.WithoutCancel(ctx) // a client that leaves must not leave half of it undone
	if l.Shared {
		switch err := ss.records.End(ctx, l.InRecord(), l.Epoch()); {
		case errors.Is(err, primary.ErrFenced):
			ss.superseded(l)
			return forward.ErrElsewhere
		case err != nil:
			ss.logger.WarnContext(ctx, "a session cannot be ended", slog.Any("error", err))
			return exchange.ErrReplicas
		}
	}
	ss.drop(l, sessions.EndClosed)
	return nil
}

// forget removes the record of a session that has ended here for another reason than that
// its client said so. What cannot be removed now is removed later.
func (ss *directory) forget(ctx context.Context, l *sessions.Session) {
	if !l.Shared || !l.IsLeading() {
		return
	}
	if ss.records.End(context.WithoutCancel(ctx), l.InRecord(), l.Epoch()) == nil {
		return
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(ss.unended) < maxUnended {
		ss.unended[l.InRecord()] = l.Epoch()
	}
}

// Of what tend does.
const (
	tendTime   = time.Second
	atOnce     = 16   // sessions of which something is written at once
	maxUnended = 4096 // records that are yet to be removed; the others end by themselves
)

// rewriteAll has tend write all records again: the store may have lost some.
func (ss *directory) rewriteAll() {
	select {
	case ss.rewriting <- struct{}{}:
	default: // it is asked for already
	}
}

// tend writes what could not be written, renews the records of sessions that are used,
// and takes over those whose clients have streams here when their primary is gone, until
// ctx ends. changed holds a value when replicas have come, ended or begun to drain.
func (ss *directory) tend(ctx context.Context, changed <-chan struct{}) {
	ticker := time.NewTicker(tendTime)
	defer ticker.Stop()
	for renewed := time.Now(); ; {
		select {
		case <-ss.rewriting:
			ss.write(ctx, func(*sessions.Session) bool { return true })
		case <-changed:
			ss.takeStranded(ctx)
		case now := <-ticker.C:
			ss.write(ctx, func(l *sessions.Session) bool { return l.IsUnwritten() })
			ss.removeEnded(ctx)
			ss.takeStranded(ctx)
			if now.Sub(renewed) >= ss.idle/renewals {
				ss.renew(ctx, renewed)
				renewed = now
			}
		case <-ctx.Done():
			return
		}
	}
}

// renewals is how often the record of a session is renewed while the session may be idle.
const renewals = 10

// write writes the records of those sessions that this replica leads.
func (ss *directory) write(ctx context.Context, which func(*sessions.Session) bool) {
	since, leads := ss.others.Leads()
	if !leads {
		return // later, when it is sure again
	}
	ss.forEach(ctx, func(l *sessions.Session) bool { return l.Shared && l.IsLeading() && which(l) }, func(l *sessions.Session) {
		if !l.LeadsSince(since) {
			_ = ss.confirm(ctx, l) // or at its next use
			return
		}
		l.SetUnwritten(false)
		err := ss.records.Open(ctx, l.InRecord(), primary.Record{
			Primary: ss.others.Self(), Epoch: l.Epoch(),
			Facts: l.Facts(),
		})
		switch {
		case errors.Is(err, primary.ErrFenced):
			ss.superseded(l)
		case err != nil:
			l.SetUnwritten(true)
		case l.IsOver():
			ss.forget(ctx, l) // it has ended meanwhile
		}
	})
}

// forEach calls do with sessions, several at once, and returns when it was called with
// all.
func (ss *directory) forEach(ctx context.Context, which func(*sessions.Session) bool, do func(*sessions.Session)) {
	var all errgroup.Group
	all.SetLimit(atOnce)
	ss.roster.Each(func(l *sessions.Session) {
		if ctx.Err() == nil && which(l) {
			all.Go(func() error {
				ss.roster.Safely(ctx, func() { do(l) })
				return nil
			})
		}
	})
	_ = all.Wait() // there is no error
}

// renew keeps the records of sessions for longer that were used since then, and writes
// those again that are not there.
func (ss *directory) renew(ctx context.Context, since time.Time) {
	var keys []primary.Key
	used := make(map[primary.Key]*sessions.Session)
	ss.roster.Each(func(l *sessions.Session) {
		if l.IsUsedSince(since) {
			keys, used[l.InRecord()] = append(keys, l.InRecord()), l
		}
	})
	missing, err := ss.records.Renew(ctx, keys)
	if err != nil {
		// the next time is soon enough
		ss.logger.DebugContext(ctx, "sessions are not renewed", slog.Any("error", err))
	}
	for _, k := range missing {
		used[k].SetUnwritten(true)
	}
}

// removeEnded removes the records that could not be removed before.
func (ss *directory) removeEnded(ctx context.Context) {
	ss.mu.Lock()
	left := ss.unended
	ss.unended = make(map[primary.Key]uint64)
	ss.mu.Unlock()
	for k, epoch := range left {
		if err := ss.records.End(ctx, k, epoch); err != nil && !errors.Is(err, primary.ErrFenced) {
			ss.mu.Lock()
			ss.unended[k] = epoch
			ss.mu.Unlock()
		}
	}
}
