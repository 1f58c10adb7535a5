package server

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
	"github.com/drawbridge-mcp/drawbridge/server/primary"
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

// lead is what a replica knows of who leads a shared session. The mutex of the session
// guards it.
type lead struct {
	leads     bool
	epoch     uint64
	confirmed time.Time       // when this replica was last sure to lead
	unwritten bool            // the record lacks something
	primary   replica.ID      // the other replica that leads; "": not known
	former    replica.ID      // that led before this one, and has calls still; "": none
	running   map[mcp.ID]bool // the requests that it answers
}

// isLeading tells whether this replica leads the session. It is true of a session that is
// not shared.
func (l *live) isLeading() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead.leads
}

// leadsSince tells whether this replica has led the session since that time or longer.
func (l *live) leadsSince(since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.shared || !l.lead.confirmed.Before(since)
}

// epoch returns that of the session, as this replica has it.
func (l *live) epoch() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead.epoch
}

// formerOf returns the replica that led the session before, and may have calls of it, ""
// if there is none.
func (l *live) formerOf() replica.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead.former
}

// inRecord names the session in the records.
func (l *live) inRecord() primary.Key { return primary.Key{Tenant: l.user.TenantID, Name: l.name} }

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
func (ss *sessions) whose(ctx context.Context, t *ticket.Ticket, c gateway.Caller,
	denied replica.ID,
) (l *live, to replica.ID, refused *exchange.Refusal) {
	if !ss.shared {
		l, refused = ss.findHere(ctx, t, c)
		return l, "", refused
	}
	if l := ss.roster.find(t.Key); l != nil && l.isLeading() {
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
func (ss *sessions) guess(t *ticket.Ticket) replica.ID {
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
func (ss *sessions) look(ctx context.Context, t *ticket.Ticket, c gateway.Caller,
	denied replica.ID,
) (*live, replica.ID, *exchange.Refusal) {
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
func (ss *sessions) unlooked(t *ticket.Ticket, denied replica.ID, err error) replica.ID {
	at := t.OpenedBy()
	if errors.Is(err, primary.ErrNone) || at == denied || at == ss.others.Self() || !ss.others.IsThere(at) {
		return ""
	}
	return at
}

// refusalOf returns the refusal for an error of the records.
func (ss *sessions) refusalOf(ctx context.Context, t *ticket.Ticket, denied replica.ID, err error) *exchange.Refusal {
	switch {
	case errors.Is(err, primary.ErrNone):
		ss.hints.set(t.Key, "")
		return miss(ctx, ss.departed.end(t.Key))
	case ss.unlooked(t, denied, err) != "":
		return nil
	}
	ss.logger.WarnContext(ctx, "a session cannot be looked up", slog.Any("error", err))
	return exchange.ErrReplicas
}

// begin makes this replica the primary of a session that it has taken over from another,
// "" if that is gone.
func (ss *sessions) begin(ctx context.Context, t *ticket.Ticket, c gateway.Caller, r primary.Record,
	former replica.ID,
) (*live, *exchange.Refusal) {
	l, refused := ss.enter(ctx, t, c)
	if refused != nil {
		return nil, refused
	}
	running := ss.tellTaken(ctx, l, former, r.Epoch)
	l.mu.Lock()
	l.lead = lead{leads: true, epoch: r.Epoch, confirmed: time.Now(), former: former, running: running}
	l.ready = true
	l.mu.Unlock()
	l.learn(r.Facts)
	ss.hints.set(t.Key, "")
	ss.roster.Metrics.SessionAdopted()
	ss.onTaken(l)
	return l, ss.useLed(ctx, l, c)
}

// enter returns the session of a ticket, which it adds to the roster if it is not there.
// The bounds of open apply.
func (ss *sessions) enter(ctx context.Context, t *ticket.Ticket, c gateway.Caller) (*live, *exchange.Refusal) {
	l := ss.liveOf(t, c.Principal, true)
	l.heard = true
	if !time.Now().Before(l.expiry) {
		return nil, miss(ctx, endExpired)
	}
	return ss.add(ctx, l, c)
}

// useLed notes that a session which this replica leads is being used. It is refused as
// errElsewhere if another has taken it over, which a replica that others may have taken
// for gone looks up once.
func (ss *sessions) useLed(ctx context.Context, l *live, c gateway.Caller) *exchange.Refusal {
	if l.shared {
		since, leads := ss.others.Leads()
		switch {
		case !leads:
			return exchange.ErrReplicas
		case !l.leadsSince(since):
			if refused := ss.confirm(ctx, l); refused != nil {
				return refused
			}
		}
	}
	now := time.Now()
	if !l.use(now, ss.idle, c.Principal) {
		ss.end(ctx, l, l.lapse(now))
		return miss(ctx, ss.departed.end(l.key))
	}
	if l.shared {
		// the handshake is over: this replica opened the session, or another one did and
		// the client goes on here
		l.begin()
	}
	return nil
}

// confirm looks up whether this replica still leads a session, after others may have
// taken it for gone.
func (ss *sessions) confirm(ctx context.Context, l *live) *exchange.Refusal {
	now := time.Now()
	record, err := ss.records.Look(ctx, l.inRecord())
	switch {
	case errors.Is(err, primary.ErrNone):
		ss.drop(l, endClosed)
		return miss(ctx, endClosed)
	case err != nil:
		return exchange.ErrReplicas
	case record.Primary != ss.others.Self() || record.Epoch != l.epoch():
		ss.follow(l, record.Primary, record.Epoch)
		return forward.ErrElsewhere
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lead.confirmed = now
	return nil
}

// follow notes that another replica leads a session. What this one has of it goes on
// without: calls and their streams until they end. Streams for notices end, here and at
// other replicas that hold them for this one, so that their clients come back to who
// leads.
func (ss *sessions) follow(l *live, at replica.ID, epoch uint64) {
	elsewhere := l.streamsAt()
	l.mu.Lock()
	before := l.lead
	l.lead = lead{epoch: epoch, primary: at}
	var lost []*holder
	for _, h := range l.holders {
		if before.leads && h.flow != nil && h.stream[0] == 'g' {
			lost = append(lost, h)
		}
	}
	l.dropListenersLocked(func(*holder) bool { return true })
	watched := l.news.watched
	l.news.watched, l.news.lost = nil, nil
	l.mu.Unlock()
	for _, w := range watched {
		w.end()
	}
	for _, h := range lost {
		h.lost.Store(true)
		h.flow.Wake()
	}
	if before.leads {
		ss.letGoAll(l, elsewhere, before.epoch)
	}
	ss.hints.set(l.key, at)
	l.rested()
}

// facts returns all that is kept of a session that this replica leads.
func (l *live) facts() map[string]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	facts := make(map[string]string)
	if l.level != 0 {
		facts[factLevel] = l.level.String()
	}
	if lists := l.listsLocked(); lists != "" {
		facts[factLists] = lists
	}
	for uri, w := range l.news.watched {
		if w.kept {
			facts[watchFact(uri)] = uri
		}
	}
	for uri := range l.news.lost {
		facts[watchFact(uri)] = uri
	}
	return facts
}

// learn takes what is kept of a session that this replica leads from now on.
func (l *live) learn(facts map[string]string) {
	if level, ok := mcp.LevelOf(facts[factLevel]); ok {
		l.wantLogs(level)
	}
	l.learnLists(facts[factLists])
	l.learnWatches(facts)
}

// Names of facts.
const (
	factLevel = "level" // of log messages, by name
	factLists = "lists" // digests of what the client was told of lists last
)

// record writes the record of a session that has just been opened. What cannot be written
// now is written later.
func (ss *sessions) record(ctx context.Context, l *live) {
	if !l.shared {
		return
	}
	err := ss.records.Open(context.WithoutCancel(ctx), l.inRecord(), primary.Record{
		Primary: ss.others.Self(),
		Epoch:   l.epoch(), Facts: l.facts(),
	})
	if err != nil {
		ss.logger.WarnContext(ctx, "a session is not recorded yet", slog.Any("error", err))
		l.setUnwritten(true)
	}
}

// keep writes a fact of a session that this replica leads; the text "" forgets it. What
// cannot be written now is written later, together with all else.
func (ss *sessions) keep(ctx context.Context, l *live, name, text string) {
	if !l.shared {
		return
	}
	r := primary.Record{Primary: ss.others.Self(), Epoch: l.epoch(), Facts: map[string]string{name: text}}
	switch err := ss.records.Keep(context.WithoutCancel(ctx), l.inRecord(), r); {
	case errors.Is(err, primary.ErrFenced):
		ss.superseded(l)
	case err != nil:
		ss.logger.DebugContext(ctx, "a fact of a session is not kept yet", slog.Any("error", err))
		l.setUnwritten(true)
	}
}

// superseded notes that another replica leads a session; which one is found out when it
// matters.
func (ss *sessions) superseded(l *live) { ss.follow(l, "", l.epoch()) }

func (l *live) setUnwritten(unwritten bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lead.unwritten = unwritten
}

// delete ends a session for its client. If its record cannot be removed, nothing has
// happened: no session is served any more after its end was answered.
func (ss *sessions) delete(ctx context.Context, l *live) *exchange.Refusal {
	ctx = context.WithoutCancel(ctx) // a client that leaves must not leave half of it undone
	if l.shared {
		switch err := ss.records.End(ctx, l.inRecord(), l.epoch()); {
		case errors.Is(err, primary.ErrFenced):
			ss.superseded(l)
			return forward.ErrElsewhere
		case err != nil:
			ss.logger.WarnContext(ctx, "a session cannot be ended", slog.Any("error", err))
			return exchange.ErrReplicas
		}
	}
	ss.drop(l, endClosed)
	return nil
}

// forget removes the record of a session that has ended here for another reason than that
// its client said so. What cannot be removed now is removed later.
func (ss *sessions) forget(ctx context.Context, l *live) {
	if !l.shared || !l.isLeading() {
		return
	}
	if ss.records.End(context.WithoutCancel(ctx), l.inRecord(), l.epoch()) == nil {
		return
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if len(ss.unended) < maxUnended {
		ss.unended[l.inRecord()] = l.epoch()
	}
}

// Of what tend does.
const (
	tendTime   = time.Second
	atOnce     = 16   // sessions of which something is written at once
	maxUnended = 4096 // records that are yet to be removed; the others end by themselves
)

// doubt has tend write all records again: the store may have lost some.
func (ss *sessions) doubt() {
	select {
	case ss.doubted <- struct{}{}:
	default: // it is asked for already
	}
}

// tend writes what could not be written, renews the records of sessions that are used,
// and takes over those whose clients have streams here when their primary is gone, until
// ctx ends. changed holds a value when replicas have come, ended or begun to drain.
func (ss *sessions) tend(ctx context.Context, changed <-chan struct{}) {
	ticker := time.NewTicker(tendTime)
	defer ticker.Stop()
	for renewed := time.Now(); ; {
		select {
		case <-ss.doubted:
			ss.write(ctx, func(*live) bool { return true })
		case <-changed:
			ss.takeStranded(ctx)
		case now := <-ticker.C:
			ss.write(ctx, func(l *live) bool { return l.isUnwritten() })
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

func (l *live) isUnwritten() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead.leads && l.lead.unwritten
}

// write writes the records of those sessions that this replica leads.
func (ss *sessions) write(ctx context.Context, which func(*live) bool) {
	since, leads := ss.others.Leads()
	if !leads {
		return // later, when it is sure again
	}
	ss.forEach(ctx, func(l *live) bool { return l.shared && l.isLeading() && which(l) }, func(l *live) {
		if !l.leadsSince(since) {
			_ = ss.confirm(ctx, l) // or at its next use
			return
		}
		l.setUnwritten(false)
		err := ss.records.Open(ctx, l.inRecord(), primary.Record{
			Primary: ss.others.Self(), Epoch: l.epoch(),
			Facts: l.facts(),
		})
		switch {
		case errors.Is(err, primary.ErrFenced):
			ss.superseded(l)
		case err != nil:
			l.setUnwritten(true)
		case l.isOver():
			ss.forget(ctx, l) // it has ended meanwhile
		}
	})
}

// forEach calls do with sessions, several at once, and returns when it was called with
// all.
func (ss *sessions) forEach(ctx context.Context, which func(*live) bool, do func(*live)) {
	var all errgroup.Group
	all.SetLimit(atOnce)
	ss.roster.each(func(l *live) {
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
func (ss *sessions) renew(ctx context.Context, since time.Time) {
	var keys []primary.Key
	used := make(map[primary.Key]*live)
	ss.roster.each(func(l *live) {
		l.mu.Lock()
		due := l.shared && l.lead.leads && !l.over && (l.isBusyLocked() || l.used.After(since))
		l.mu.Unlock()
		if due {
			keys, used[l.inRecord()] = append(keys, l.inRecord()), l
		}
	})
	missing, err := ss.records.Renew(ctx, keys)
	if err != nil {
		// the next time is soon enough
		ss.logger.DebugContext(ctx, "sessions are not renewed", slog.Any("error", err))
	}
	for _, k := range missing {
		used[k].setUnwritten(true)
	}
}

// removeEnded removes the records that could not be removed before.
func (ss *sessions) removeEnded(ctx context.Context) {
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
