package sessions

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// OpeningTime is how long a session cannot be evicted if its client has sent nothing
// since initialize: the time of a round trip and a little more. Without it, sessions that
// are opened faster than their clients can go on would evict each other before their
// first message.
const OpeningTime = 100 * time.Millisecond

// sessionCost is what a session takes of the memory that all share, in bytes: itself, its
// entries here, and what the log of events remembers of it. So the sessions of all
// tenants together have a bound that follows the memory of the process.
const sessionCost = 1 << 10

// Roster is the sessions that live on this instance, each in the group of its tenant and
// in that of its user, and the one place that decides which of them ends so that another
// can be opened:
//
//	          first message, or OpeningTime            call or stream begins
//	opening ────────────────────────────────▶ idle ──────────────────────────▶ in use
//	                                          │  ▲                               │
//	                          evicted ◀───────┘  └───────────────────────────────┘
//	                  for another session              last call or stream ends
//
// A message sets the time of its session, under the mutex of that session, and does not
// touch the roster. So the queues, which the mutex of the roster guards, show times for
// many sessions that are too old, and contain some sessions that are in use. Both are put
// right when such a session comes to the front because one has to go: a session that was
// used since moves back to where it belongs, and one in use leaves the queues until it is
// idle again. No session ever stands behind its true place, so one at the front whose
// time is right is the one idle for longest. Looking for it moves each session that was
// used meanwhile once, at most.
//
// A session is chosen, ended and taken out of the count while the mutex is held once,
// together with the entry of the new one. If it were taken out later, many that open
// sessions at the same time could all pass the bound. What its end means to others (its
// subscriptions, its part of the log) is done afterwards.
//
// A roster is safe for concurrent use. Its mutex is locked before that of a session,
// never the other way round.
type Roster struct {
	exchange.Guard

	memory    *share.Budget
	onNotices func(*Session) // has replicas that hold streams of a session look for news of it
	byKey     sync.Map       // of *live by ticket.Key: changed under mu, read without

	mu      sync.Mutex // guards the fields below and the entries of all sessions
	tenants map[string]*group
	users   map[auth.User]*group
}

// Bounds are how many sessions may live at once, of a tenant and of each of its users.
// Zero means none.
type Bounds struct{ Tenant, User int }

// entry is where a session stands in the roster.
type entry struct {
	groups [2]*group // that of its tenant and that of its user
	index  [2]int    // in the queue of each, from 1; 0: in none
	stamp  time.Time // the time by which it is queued; it was used then, and perhaps again later
	gone   func()    // tells the metrics that the session has ended
}

// NewRoster returns an empty roster. onNotices has replicas that hold streams of a
// session look for news of it.
func NewRoster(g exchange.Guard, memory *share.Budget, onNotices func(*Session)) *Roster {
	return &Roster{
		Guard: g, memory: memory, onNotices: onNotices, tenants: make(map[string]*group),
		users: make(map[auth.User]*group),
	}
}

// Hold keeps everybody else from the queues and counts until release is called. Tests
// have two open a session at the same time with it.
func (ro *Roster) Hold() (release func()) {
	ro.mu.Lock()
	return ro.mu.Unlock
}

// Find returns the session with that key, nil when there is none.
func (ro *Roster) Find(key ticket.Key) *Session {
	l, _ := ro.byKey.Load(key)
	found, _ := l.(*Session)
	return found
}

// Each calls do with every session. It holds no lock while it does. After a panic it goes
// on with the next session: otherwise all that come behind that one would be left out
// each time.
func (ro *Roster) Each(do func(*Session)) {
	ro.byKey.Range(func(_, l any) bool {
		ro.Safely(context.Background(), func() { do(l.(*Session)) })
		return true
	})
}

// Add enters a session. It returns that session, or the one that has the same key
// already. If a bound is reached, or there is no memory for one more, the session that
// has been idle longest is evicted for it. evicted are those that were: they are over,
// and the caller discards them. If none is idle, the new session is refused and not
// entered.
func (ro *Roster) Add(l *Session, b Bounds) (entered *Session, evicted []*Session,
	refused *exchange.Refusal,
) {
	ro.mu.Lock()
	defer ro.mu.Unlock()
	if other := ro.Find(l.Key); other != nil {
		return other, nil, nil
	}
	if evicted, refused = ro.evictForLocked(l, b); refused != nil {
		return nil, evicted, refused
	}
	ro.byKey.Store(l.Key, l)
	l.entry.gone = ro.Metrics.SessionOpened(l.User.TenantID)
	l.entry.groups = [2]*group{
		groupOf(ro.tenants, l.User.TenantID, ofTenant),
		groupOf(ro.users, l.User, ofUser),
	}
	for _, g := range l.entry.groups {
		g.count++
	}
	queueLocked(l, l.IdleSince())
	return l, evicted, nil
}

// evictForLocked evicts as many sessions as there are too many for one more, and takes
// memory for that. It evicts one, unless a reload has lowered the bound, or the tenant
// holds more memory than its share is by now.
func (ro *Roster) evictForLocked(l *Session, b Bounds) (evicted []*Session, refused *exchange.Refusal) {
	if b.User == 0 || b.Tenant == 0 {
		return nil, exchange.ErrNoSessions
	}
	now, owner := time.Now(), share.User(l.User)
	// There is memory for l once a session of its user was evicted. To give that back and
	// to take as much anew could fail, because the share of the user may be less by now
	// than what it holds.
	reserved := false
	defer func() {
		if reserved && refused != nil {
			ro.memory.Give(owner, sessionCost)
		}
	}()
	evict := func(g *group, limit string) bool {
		gone := ro.evictLocked(g, now, limit)
		switch {
		case gone == nil:
			return false
		case gone.User == l.User && !reserved:
			reserved = true
		default:
			ro.memory.Give(share.User(gone.User), sessionCost)
		}
		evicted = append(evicted, gone)
		return true
	}
	user, tenant := ro.users[l.User], ro.tenants[l.User.TenantID]
	for user.isFull(b.User) { // first, because an evicted session of the user makes room in the tenant too
		if !evict(user, "user_sessions") {
			return evicted, exchange.ErrUserSessions
		}
	}
	for tenant.isFull(b.Tenant) {
		if !evict(tenant, "sessions") {
			return evicted, exchange.ErrSessions
		}
	}
	for !reserved {
		switch err := ro.memory.Take(owner, sessionCost); {
		case err == nil:
			reserved = true
		case errors.Is(err, share.ErrUser) && evict(user, "memory"):
		case errors.Is(err, share.ErrTenant) &&
			evict(tenant, "memory"): // its sessions are also those of the user
		default:
			return evicted, exchange.RefusalOfMemory(err)
		}
	}
	return evicted, nil
}

// evictLocked ends the session of the group that has been idle longest, and takes it out
// as removeLocked does. limit is the setting that wants it. It returns nil if none is
// idle, or if the group is nil.
func (ro *Roster) evictLocked(g *group, now time.Time, limit string) *Session {
	for g != nil && len(g.queue) > 0 {
		l := g.queue[0]
		since, idle := l.yield(l.entry.stamp, now)
		switch {
		case !idle:
			unqueueLocked(l)
		case since.After(l.entry.stamp):
			queueLocked(l, since)
		case since.After(now):
			return nil // this session, and all behind it, were opened just now
		default:
			ro.removeLocked(l)
			l.EvictedBy = limit
			ro.Metrics.SessionEvicted(l.User.TenantID, l.EvictedBy)
			return l
		}
	}
	return nil
}

// Remove takes a session out, if it is in.
func (ro *Roster) Remove(l *Session) {
	ro.mu.Lock()
	defer ro.mu.Unlock()
	if ro.Find(l.Key) == l {
		ro.removeLocked(l)
		ro.memory.Give(share.User(l.User), sessionCost)
	}
}

// removeLocked takes a session out. The caller gives back its memory, or passes it on.
func (ro *Roster) removeLocked(l *Session) {
	unqueueLocked(l)
	ro.byKey.Delete(l.Key)
	l.entry.gone()
	for _, g := range l.entry.groups {
		g.count--
	}
	if l.entry.groups[ofUser].count == 0 {
		delete(ro.users, l.User)
	}
	if l.entry.groups[ofTenant].count == 0 {
		delete(ro.tenants, l.User.TenantID)
	}
}

// requeue puts a session where it belongs in the queues. It is called after the first
// message of a client, and when a session that had left the queues because it was in use
// is idle again.
func (ro *Roster) requeue(l *Session) {
	ro.mu.Lock()
	defer ro.mu.Unlock()
	if ro.Find(l.Key) == l {
		queueLocked(l, l.IdleSince())
	}
}

// groupOf returns the group with that key, and makes it if there is none.
func groupOf[K comparable](groups map[K]*group, key K, kind int) *group {
	g := groups[key]
	if g == nil {
		g = &group{kind: kind}
		groups[key] = g
	}
	return g
}

// queueLocked puts a session where it belongs in the queues if stamp is when it was last
// used.
func queueLocked(l *Session, stamp time.Time) {
	l.entry.stamp = stamp
	for kind, g := range l.entry.groups {
		if i := l.entry.index[kind]; i > 0 {
			heap.Fix(g, i-1)
			continue
		}
		heap.Push(g, l)
	}
}

// unqueueLocked takes a session out of the queues, if it is in them.
func unqueueLocked(l *Session) {
	for kind, g := range l.entry.groups {
		if i := l.entry.index[kind]; i > 0 {
			heap.Remove(g, i-1)
		}
	}
}

// The kinds of group.
const (
	ofTenant = iota
	ofUser
)

// group holds the sessions of one tenant or of one user.
type group struct {
	kind  int
	count int // of all of them
	// a heap: at the front the one with the oldest stamp; those known to be in use are
	// not in it
	queue []*Session
}

// isFull tells whether the group has as many sessions as that or more. A nil one has
// none.
func (g *group) isFull(most int) bool { return g != nil && g.count >= most }

var _ heap.Interface = (*group)(nil)

// Len implements heap.Interface.
func (g *group) Len() int { return len(g.queue) }

// Less implements heap.Interface.
func (g *group) Less(i, j int) bool { return g.queue[i].entry.stamp.Before(g.queue[j].entry.stamp) }

// Swap implements heap.Interface.
func (g *group) Swap(i, j int) {
	g.queue[i], g.queue[j] = g.queue[j], g.queue[i]
	g.queue[i].entry.index[g.kind], g.queue[j].entry.index[g.kind] = i+1, j+1
}

// Push implements heap.Interface.
func (g *group) Push(l any) {
	g.queue = append(g.queue, l.(*Session))
	g.queue[len(g.queue)-1].entry.index[g.kind] = len(g.queue)
}

// Pop implements heap.Interface.
func (g *group) Pop() any {
	last := len(g.queue) - 1
	l := g.queue[last]
	l.entry.index[g.kind] = 0
	g.queue[last] = nil
	g.queue = g.queue[:last]
	return l
}
