package server

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/server/session"
)

// Sessions at once. One more ends the one longest unused of those that its owner has, or the tenant when it has too
// many, and one that is in use last. Whose session ended opens a new one.
const (
	maxSessions = 10_000 // of one tenant
	maxOwned    = 1_000  // of one client of one user
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

	mu       sync.Mutex // guards the fields below
	byTenant map[string]map[sessionKey]*live
}

// live is one session.
type live struct {
	key      sessionKey
	owner    owner
	name     string // in the log
	tenant   string
	expiry   time.Time
	shared   bool          // it lives on all replicas
	suffix   string        // of its streams' names; differs between replicas
	ended    chan struct{} // closed when it has ended
	mu       sync.Mutex    // guards the fields below
	revision string
	asks     mcp.Object // what the client can be asked
	level    mcp.Level  // of log messages that the client wants; zero: none
	over     bool
	ready    bool // the client said that it is
	used     time.Time
	news     news
	calls    map[mcp.ID]*call
	calm     chan struct{}      // closed when no call is in flight; nil while nobody waits
	holders  map[string]*holder // of the streams that are open
	opened   int                // streams so far
}

func newSessions(cfg *Config, generation [generationSize]byte) *sessions {
	return &sessions{
		ring: cfg.Seal, log: cfg.Log, generation: generation, shared: cfg.Shared, idle: cfg.SessionIdle, maxAge: cfg.SessionMaxAge,
		byTenant: make(map[string]map[sessionKey]*live),
	}
}

// open makes a session for p, and its id.
func (ss *sessions) open(ctx context.Context, purpose string, p auth.Principal, revision string, asks mcp.Object) (*live, string, error) {
	t := ticket{generation: ss.generation, key: newKey(), owner: ownerOf(p), opened: time.Now(), revision: revision, asks: asks}
	id, err := ss.ring.Seal(purpose, t.encode())
	if err != nil {
		return nil, "", err
	}
	l := ss.liveOf(&t, p.TenantID, ss.shared && purpose == purposeSession)
	ss.add(ctx, l)
	return l, id, nil
}

// liveOf returns a session as its ticket describes it.
func (ss *sessions) liveOf(t *ticket, tenant string, shared bool) *live {
	l := &live{
		key: t.key, owner: t.owner, name: t.key.String(), tenant: tenant, expiry: t.opened.Add(ss.maxAge), shared: shared,
		ended: make(chan struct{}), revision: t.revision, asks: t.asks, used: time.Now(),
	}
	if shared {
		replica := newKey()
		l.suffix = "r" + hex.EncodeToString(replica[:4])
	}
	return l
}

// adopt makes a session that another replica opened one of this instance too.
func (ss *sessions) adopt(ctx context.Context, t *ticket, tenant string) *live {
	l := ss.liveOf(t, tenant, true)
	if !time.Now().Before(l.expiry) {
		return nil
	}
	return ss.add(ctx, l)
}

// add keeps a session, and ends the one that has to go for it, if any. It returns the session that has the key.
func (ss *sessions) add(ctx context.Context, l *live) *live {
	ss.mu.Lock()
	mates := ss.byTenant[l.tenant]
	if mates == nil {
		mates = make(map[sessionKey]*live)
		ss.byTenant[l.tenant] = mates
	}
	if other := mates[l.key]; other != nil {
		ss.mu.Unlock()
		return other
	}
	crowded := crowdedOut(mates, l.owner)
	mates[l.key] = l
	ss.mu.Unlock()
	if crowded != nil {
		ss.discard(ctx, crowded)
	}
	return l
}

// crowdedOut returns the session that has to go for another of that owner, nil when there is room.
func crowdedOut(mates map[sessionKey]*live, o owner) *live {
	var own, oldest *live // longest unused
	owned := 0
	for _, mate := range mates {
		if mate.owner == o {
			owned++
			own = longerUnused(own, mate)
		}
		if len(mates) >= maxSessions {
			oldest = longerUnused(oldest, mate)
		}
	}
	if owned >= maxOwned {
		return own
	}
	return oldest
}

// longerUnused returns which of two sessions goes first; a may be nil.
func longerUnused(a, b *live) *live {
	if a == nil {
		return b
	}
	aUsed, aBusy := a.lastUsed()
	bUsed, bBusy := b.lastUsed()
	if aBusy != bBusy && bBusy || aBusy == bBusy && aUsed.Before(bUsed) {
		return a
	}
	return b
}

// find returns the session that id names, when it is p's and alive. A foreign, forged, unknown, ended or expired one,
// and one of another instance, is not found, and nothing tells which of these it is.
func (ss *sessions) find(ctx context.Context, purpose, id string, p auth.Principal) *live {
	plain, err := ss.ring.Open(purpose, id)
	if err != nil {
		return nil
	}
	t, ok := decodeTicket(plain)
	shared := ss.shared && purpose == purposeSession
	if !ok || t.owner != ownerOf(p) || !shared && t.generation != ss.generation {
		return nil
	}
	ss.mu.Lock()
	l := ss.byTenant[p.TenantID][t.key]
	ss.mu.Unlock()
	if l == nil && shared {
		l = ss.adopt(ctx, &t, p.TenantID)
	}
	if l == nil {
		return nil
	}
	idle := ss.idle
	if shared { // it may have been in use elsewhere
		idle = ss.maxAge
	}
	if !l.use(time.Now(), idle) || shared && !ss.refresh(ctx, l) {
		ss.end(ctx, l)
		return nil
	}
	return l
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
		if l := ss.find(r.Context(), purposeSession, ids[0], x.principal); l != nil {
			return l, nil
		}
	}
	return nil, errSession
}

// end ends a session: its calls are cancelled, its streams end, its events are forgotten.
func (ss *sessions) end(ctx context.Context, l *live) {
	if ss.forget(l) {
		_ = ss.log.End(context.WithoutCancel(ctx), l.name) // what is not forgotten now is when it is old
	}
}

// discard ends a session for want of use or room. One that lives on other replicas too, goes on there, and may come
// back.
func (ss *sessions) discard(ctx context.Context, l *live) {
	if l.shared {
		ss.forget(l)
		return
	}
	ss.end(ctx, l)
}

// forget ends a session on this instance. It is false when that was done before.
func (ss *sessions) forget(l *live) bool {
	ss.mu.Lock()
	if ss.byTenant[l.tenant][l.key] == l {
		delete(ss.byTenant[l.tenant], l.key)
	}
	if len(ss.byTenant[l.tenant]) == 0 {
		delete(ss.byTenant, l.tenant)
	}
	ss.mu.Unlock()
	return l.close()
}

// sweep ends the sessions that nobody used for too long.
func (ss *sessions) sweep(ctx context.Context) {
	now := time.Now()
	var stale []*live
	ss.mu.Lock()
	for _, mates := range ss.byTenant {
		for _, l := range mates {
			if !l.fresh(now, ss.idle) {
				stale = append(stale, l)
			}
		}
	}
	ss.mu.Unlock()
	for _, l := range stale {
		ss.discard(ctx, l)
	}
}

// use notes that the session is used now. It is false when it was not for too long, or has ended.
func (l *live) use(now time.Time, idle time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isFresh(now, idle) {
		return false
	}
	l.used = now
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

func (l *live) isBusy() bool { return len(l.calls) > 0 || len(l.holders) > 0 }

func (l *live) lastUsed() (used time.Time, busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used, l.isBusy()
}

// close marks the session as ended, cancels its calls and ends its subscriptions. It is false when that was done
// before.
func (l *live) close() bool {
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return false
	}
	l.over = true
	close(l.ended)
	for _, c := range l.calls {
		c.cancel(errSessionEnded)
	}
	watched := l.news.watched
	l.news.watched = nil
	l.mu.Unlock()
	for _, w := range watched {
		w.end()
	}
	return true
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
	defer l.mu.Unlock()
	delete(l.calls, c.id)
	l.used = time.Now()
	if len(l.calls) == 0 && l.calm != nil {
		close(l.calm)
		l.calm = nil
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
	defer l.mu.Unlock()
	if l.holders[stream] == mine {
		delete(l.holders, stream)
	}
	l.used = time.Now()
	close(mine.gone)
}

// nextStream returns a name for a new stream of the log.
func (l *live) nextStream(kind byte) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened++
	return string(kind) + strconv.Itoa(l.opened) + l.suffix
}
