package server

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// Causes of a call's end.
var (
	errCancelled    = errors.New("cancelled by the client")
	errSessionEnded = errors.New("the session has ended")
)

// sessions are those that live on this instance.
type sessions struct {
	ring       *seal.Ring
	log        session.Log
	generation [generationSize]byte
	shared     bool // log is that of other replicas, too
	idle       time.Duration
	maxAge     time.Duration
	roster     *roster
	departed   *departed
	logger     *slog.Logger
}

// live is one session.
type live struct {
	key    sessionKey
	user   auth.User
	name   string // in the log of events
	expiry time.Time
	roster *roster
	seat   seat // guarded by the roster's mutex
	shared bool // it lives on all replicas

	evictedBy string        // the limit that it was evicted for; written once, by who ends it
	suffix    string        // of its streams' names; differs between replicas
	ended     chan struct{} // closed when it has ended
	mu        sync.Mutex    // guards the fields below
	revision  string
	asks      mcp.Object // what the client can be asked
	level     mcp.Level  // of log messages that the client wants; zero: none
	over      bool
	ready     bool // the client said that it is
	heard     bool // the client sent something since the session was opened
	parked    bool // it is not in the queues of the roster, as it was in use
	used      time.Time
	news      news
	calls     map[mcp.ID]*call
	calm      chan struct{}      // closed when no call is in flight; nil while nobody waits
	holders   map[string]*holder // of the streams that are open
	opened    int                // streams so far
}

func newSessions(cfg *Config, generation [generationSize]byte, logger *slog.Logger) *sessions {
	return &sessions{
		ring: cfg.Seal, log: cfg.Log, generation: generation, shared: cfg.Shared, idle: cfg.SessionIdle, maxAge: cfg.SessionMaxAge,
		roster: newRoster(cfg.Metrics), departed: newDeparted(), logger: logger,
	}
}

// open makes a session for a caller, and its id. The session longest idle of its user or tenant ends for it when there
// are as many as may be; when none is idle, the new one is refused.
func (ss *sessions) open(ctx context.Context, purpose string, c gateway.Caller, revision string, asks mcp.Object) (l *live, id string, refused *refusal, err error) {
	t := ticket{generation: ss.generation, key: newKey(), owner: c.Principal.Owner().Digest(), opened: time.Now(), revision: revision, asks: asks}
	id, err = ss.ring.Seal(purpose, t.encode())
	if err != nil {
		return nil, "", nil, err
	}
	l, refused = ss.add(ctx, ss.liveOf(&t, c.Principal, ss.shared && purpose == purposeSession), c)
	return l, id, refused, nil
}

// liveOf returns a session as its ticket describes it.
func (ss *sessions) liveOf(t *ticket, p auth.Principal, shared bool) *live {
	l := &live{
		key: t.key, user: p.User(), name: t.key.String(), expiry: t.opened.Add(ss.maxAge), shared: shared,
		roster: ss.roster, ended: make(chan struct{}), revision: t.revision, asks: t.asks, used: time.Now(),
	}
	if shared {
		replica := newKey()
		l.suffix = "r" + hex.EncodeToString(replica[:4])
	}
	return l
}

// adopt makes a session that another replica opened one of this instance too, as open does.
func (ss *sessions) adopt(ctx context.Context, t *ticket, c gateway.Caller) (*live, *refusal) {
	l := ss.liveOf(t, c.Principal, true)
	if !time.Now().Before(l.expiry) {
		return nil, errSession
	}
	l.heard = true
	return ss.add(ctx, l, c)
}

// add enters a session, and ends those that have to go for it. It returns the session that has the key.
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

// find returns the session that id names, when it is the caller's and alive. A foreign, forged, unknown, ended or
// expired one, and one of another instance, is not found, and only the log tells which of these it is.
func (ss *sessions) find(ctx context.Context, purpose, id string, c gateway.Caller) (*live, *refusal) {
	plain, err := ss.ring.Open(purpose, id)
	if err != nil {
		return nil, miss(ctx, lostUnreadable)
	}
	t, ok := decodeTicket(plain)
	shared := ss.shared && purpose == purposeSession
	switch {
	case !ok:
		return nil, miss(ctx, lostUnreadable)
	case t.owner != c.Principal.Owner().Digest():
		return nil, miss(ctx, lostForeign)
	case !shared && t.generation != ss.generation:
		return nil, miss(ctx, lostRestart)
	}
	l := ss.roster.find(t.key)
	if l == nil && shared {
		var refused *refusal
		if l, refused = ss.adopt(ctx, &t, c); refused != nil {
			return nil, refused
		}
	}
	if l == nil {
		return nil, miss(ctx, ss.departed.end(t.key))
	}
	idle := ss.idle
	if shared { // it may have been in use elsewhere
		idle = ss.maxAge
	}
	now := time.Now()
	if !l.use(now, idle) {
		ss.end(ctx, l, l.lapse(now))
		return nil, miss(ctx, ss.departed.end(t.key))
	}
	if shared && !ss.refresh(ctx, l) {
		ss.end(ctx, l, endClosed)
		return nil, miss(ctx, endClosed)
	}
	return l, nil
}

// keptLevel is the name under which the log keeps a session's log level.
const keptLevel = "level"

// refresh learns what other replicas were told of a session. It is false when the session has ended. Its client's
// handshake is over: this replica opened it, or another one did and the client goes on here.
func (ss *sessions) refresh(ctx context.Context, l *live) bool {
	name, err := ss.log.Kept(ctx, l.name, keptLevel)
	if level, ok := mcp.LevelOf(name); ok {
		l.wantLogs(level)
	}
	l.begin()
	return !errors.Is(err, session.ErrUnknown)
}

// of returns the session that a request names in its header.
func (ss *sessions) of(x *exchange, r *http.Request) (*live, *refusal) {
	ids := r.Header[mcp.HeaderSessionID]
	if len(ids) == 0 {
		return nil, errNoSession
	}
	if len(ids) == 1 && len(ids[0]) <= seal.MaxLength {
		return ss.find(r.Context(), purposeSession, ids[0], x.caller)
	}
	return nil, errSession
}

// end ends a session: its calls are cancelled, its streams end, its events are forgotten. how is for the log.
func (ss *sessions) end(ctx context.Context, l *live, how string) {
	ss.roster.remove(l)
	if l.close() {
		ss.departed.add(l.key, how)
		_ = ss.log.End(context.WithoutCancel(ctx), l.name) // what is not forgotten now is when it is old
	}
}

// sweep ends the sessions that nobody used for too long.
func (ss *sessions) sweep(ctx context.Context) {
	now := time.Now()
	ss.roster.each(func(l *live) {
		if l.fresh(now, ss.idle) {
			return
		}
		ss.roster.remove(l)
		if l.close() {
			ss.departed.add(l.key, l.lapse(now))
			ss.forgetEvents(ctx, l)
		}
	})
}

// forgetEvents forgets the events of a session that ended for want of use or room. One that lives on other replicas
// too, goes on there, and may come back.
func (ss *sessions) forgetEvents(ctx context.Context, l *live) {
	if !l.shared {
		_ = ss.log.End(context.WithoutCancel(ctx), l.name) // what is not forgotten now is when it is old
	}
}

// use notes that the session is used now. It is false when it was not for too long, or has ended.
func (l *live) use(now time.Time, idle time.Duration) bool {
	l.mu.Lock()
	if !l.isFresh(now, idle) {
		l.mu.Unlock()
		return false
	}
	first := !l.heard
	l.used, l.heard = now, true
	l.mu.Unlock()
	if first {
		l.roster.settle(l)
	}
	return true
}

func (l *live) fresh(now time.Time, idle time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isFresh(now, idle)
}

// isFresh tells whether the session may be used. One with a call in work or an open stream is not idle.
func (l *live) isFresh(now time.Time, idle time.Duration) bool {
	return !l.over && now.Before(l.expiry) && (l.isBusy() || now.Sub(l.used) <= idle)
}

// lapse says why the session is not fresh any more, for the log.
func (l *live) lapse(now time.Time) string {
	if !now.Before(l.expiry) {
		return endExpired
	}
	return endIdle
}

func (l *live) isBusy() bool { return len(l.calls) > 0 || len(l.holders) > 0 }

// yield ends the session when it is idle and was not used after stamp, to make room for another. It tells since when
// the session is idle; that is later than now for one that was opened just now, which does not end. One that is in use
// does not end either, and tells the roster when it is idle again. Who ended it, dissolves it.
func (l *live) yield(stamp, now time.Time) (since time.Time, idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isBusy() {
		l.parked = true
		return time.Time{}, false
	}
	since = l.idleSinceLocked()
	l.over = !since.After(stamp) && !since.After(now)
	return since, true
}

// idleSince returns when the session was last used.
func (l *live) idleSince() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idleSinceLocked()
}

func (l *live) idleSinceLocked() time.Time {
	if !l.heard {
		return l.used.Add(openingTime)
	}
	return l.used
}

// restLocked notes that the session was in use until now. It is true when the roster has to be told that it is not any
// more, after the mutex is unlocked.
func (l *live) restLocked() bool {
	l.used = time.Now()
	back := l.parked && !l.isBusy()
	l.parked = l.parked && !back
	return back
}

// close ends the session. It is false when that was done before.
func (l *live) close() bool {
	l.mu.Lock()
	before := l.over
	l.over = true
	l.mu.Unlock()
	if before {
		return false
	}
	l.dissolve()
	return true
}

// dissolve lets go of what a session that is over has: it cancels the calls, and ends streams and subscriptions. It is
// called once.
func (l *live) dissolve() {
	close(l.ended)
	l.mu.Lock()
	for _, c := range l.calls {
		c.cancel(errSessionEnded)
	}
	watched := l.news.watched
	l.news.watched = nil
	l.mu.Unlock()
	for _, w := range watched {
		w.end()
	}
}

// speaks returns the negotiated revision.
func (l *live) speaks() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revision
}

// terms returns what the client can be asked, and the level of log messages that it wants.
func (l *live) terms() (asks mcp.Object, level mcp.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asks, l.level
}

// agree sets what the handshake says, in a session that was opened before.
func (l *live) agree(revision string, asks mcp.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision, l.asks = revision, asks
}

// enter adds a call in flight. The ids of those must differ.
func (l *live) enter(c *call) *refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return errSession
	}
	if l.calls == nil {
		l.calls = make(map[mcp.ID]*call)
	}
	if l.calls[c.id] != nil {
		return refuseAs(http.StatusBadRequest, mcp.CodeInvalidRequest, "Invalid request: this id is in use by a request in flight")
	}
	l.calls[c.id] = c
	return nil
}

func (l *live) leave(c *call) {
	l.mu.Lock()
	delete(l.calls, c.id)
	back := l.restLocked()
	if len(l.calls) == 0 && l.calm != nil {
		close(l.calm)
		l.calm = nil
	}
	l.mu.Unlock()
	if back {
		l.roster.settle(l)
	}
}

// calmed returns a channel that is closed when no call is in flight.
func (l *live) calmed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) == 0 {
		calm := make(chan struct{})
		close(calm)
		return calm
	}
	if l.calm == nil {
		l.calm = make(chan struct{})
	}
	return l.calm
}

// listens tells whether notices may be sent: the client's handshake is over.
func (l *live) listens() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready
}

// begin notes that the client's handshake is over.
func (l *live) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready = true
}

// cancel cancels the call in flight with that id. It is false when there is none here.
func (l *live) cancel(id mcp.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[id]
	if c != nil {
		c.cancel(errCancelled)
	}
	return c != nil
}

// holder is a connection that has a stream of the log.
type holder struct {
	lost chan struct{} // closed when another connection takes over
	gone chan struct{} // closed when this one sends nothing more
}

// hold takes a stream of the log for one connection, away from the connection that had it, and waits until that one
// sends nothing more: an event goes to one connection only. release is called once, also after an error, which is
// ctx's.
func (l *live) hold(ctx context.Context, stream string) (mine *holder, err error) {
	mine = &holder{make(chan struct{}), make(chan struct{})}
	l.mu.Lock()
	before := l.holders[stream]
	if l.holders == nil {
		l.holders = make(map[string]*holder)
	}
	l.holders[stream] = mine
	l.mu.Unlock()
	if before == nil {
		return mine, nil
	}
	close(before.lost)
	select {
	case <-before.gone:
		return mine, nil
	case <-ctx.Done():
		return mine, ctx.Err()
	}
}

// release gives the stream back, if no other connection took it.
func (l *live) release(stream string, mine *holder) {
	l.mu.Lock()
	if l.holders[stream] == mine {
		delete(l.holders, stream)
	}
	back := l.restLocked()
	close(mine.gone)
	l.mu.Unlock()
	if back {
		l.roster.settle(l)
	}
}

// nextStream returns a name for a new stream of the log.
func (l *live) nextStream(kind byte) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened++
	return string(kind) + strconv.Itoa(l.opened) + l.suffix
}
