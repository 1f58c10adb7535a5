package server

import (
	"container/heap"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/metrics"
)

// openingTime is how long a session whose client has sent nothing since initialize is not evicted: the time of a round
// trip and a little more. Were there no such time, sessions that are opened faster than their clients can answer would
// end each other before their first message.
const openingTime = 100 * time.Millisecond

// roster is the sessions that live on this instance, each in the group of its tenant and in that of its user, and the
// one place that decides which of them ends so that another can be opened:
//
//	          first message, or openingTime            call or stream begins
//	opening ────────────────────────────────▶ idle ──────────────────────────▶ in use
//	                                          │  ▲                               │
//	                          evicted ◀───────┘  └───────────────────────────────┘
//	                  for another session              last call or stream ends
//
// A message only sets the time in its own session, under that session's mutex. So the queues, which the mutex of all
// guards, show an old time for many sessions, and hold some that are in use. Both are put right for those that come to
// the front when one has to go: a session used since moves back to where it belongs, and one in use leaves the queues
// until it is not any more. No session ever stands behind its true place, so that one at the front whose time is right
// is the one longest idle. Looking for it costs a session moved for each that was used meanwhile, at most.
//
// A session is chosen, ended and taken out of the count in one hold of the mutex, together with the new one's entry:
// were it taken out later, many that open sessions at once would all pass the bound. What ending it means to others
// (subscriptions, the log) is done afterwards.
//
// A roster is safe for concurrent use. Its mutex is locked before that of a session, never the other way round.
type roster struct {
	metrics *metrics.Metrics
	byKey   sync.Map // of *live by sessionKey: changed under mu, read without

	mu      sync.Mutex // guards the fields below and the seats of all sessions
	tenants map[string]*group
	users   map[auth.User]*group
}

// bounds are how many sessions may live at once, of a tenant and of each user of it. Zero: none.
type bounds struct{ tenant, user int }

// seat is where a session stands in the roster.
type seat struct {
	groups [2]*group // that of its tenant and that of its user
	index  [2]int    // in the queue of each, from 1; 0: in none
	stamp  time.Time // by which it is queued: it was last used then, or later
	gone   func()    // tells the metrics that it is out
}

func newRoster(m *metrics.Metrics) *roster {
	return &roster{metrics: m, tenants: make(map[string]*group), users: make(map[auth.User]*group)}
}

// find returns the session with that key, nil when there is none.
func (ro *roster) find(key sessionKey) *live {
	l, _ := ro.byKey.Load(key)
	found, _ := l.(*live)
	return found
}

// each calls do with all sessions. It holds no lock meanwhile.
func (ro *roster) each(do func(*live)) {
	ro.byKey.Range(func(_, l any) bool {
		do(l.(*live))
		return true
	})
}

// add enters a session and returns it, or the one that has the key already. Where a bound is reached, the session
// longest idle goes: evicted are those that went. They are over; the caller dissolves them. When none is idle, the
// session is refused, and not entered.
func (ro *roster) add(l *live, b bounds) (entered *live, evicted []*live, refused *refusal) {
	ro.mu.Lock()
	defer ro.mu.Unlock()
	if other := ro.find(l.key); other != nil {
		return other, nil, nil
	}
	if evicted, refused = ro.makeRoomLocked(l, b); refused != nil {
		return nil, evicted, refused
	}
	ro.byKey.Store(l.key, l)
	l.seat.gone = ro.metrics.SessionOpened(l.user.TenantID)
	l.seat.groups = [2]*group{groupOf(ro.tenants, l.user.TenantID, ofTenant), groupOf(ro.users, l.user, ofUser)}
	for _, g := range l.seat.groups {
		g.count++
	}
	queueLocked(l, l.idleSince())
	return l, evicted, nil
}

// makeRoomLocked evicts as many sessions as there are too many for one more: one, unless a reload lowered the bound.
func (ro *roster) makeRoomLocked(l *live, b bounds) (evicted []*live, refused *refusal) {
	if b.user == 0 || b.tenant == 0 {
		return nil, errNoSessions
	}
	now := time.Now()
	evict := func(g *group, most int) bool {
		for g != nil && g.count >= most {
			gone := ro.evictLocked(g, now)
			if gone == nil {
				return false
			}
			evicted = append(evicted, gone)
		}
		return true
	}
	if !evict(ro.users[l.user], b.user) { // first: whoever makes room there makes it in the tenant, too
		return evicted, errUserSessions
	}
	if !evict(ro.tenants[l.user.TenantID], b.tenant) {
		return evicted, errSessions
	}
	return evicted, nil
}

// evictLocked ends the session of a group that is longest idle, and takes it out. It returns nil when none is idle.
func (ro *roster) evictLocked(g *group, now time.Time) *live {
	for len(g.queue) > 0 {
		l := g.queue[0]
		since, idle := l.yield(l.seat.stamp, now)
		switch {
		case !idle:
			unqueueLocked(l)
		case since.After(l.seat.stamp):
			queueLocked(l, since)
		case since.After(now):
			return nil // this one and all behind it were opened just now
		default:
			ro.removeLocked(l)
			l.evictedBy = limitOf(g.kind)
			ro.metrics.SessionEvicted(l.user.TenantID, l.evictedBy)
			return l
		}
	}
	return nil
}

// remove takes a session out, if it is in.
func (ro *roster) remove(l *live) {
	ro.mu.Lock()
	defer ro.mu.Unlock()
	if ro.find(l.key) == l {
		ro.removeLocked(l)
	}
}

func (ro *roster) removeLocked(l *live) {
	unqueueLocked(l)
	ro.byKey.Delete(l.key)
	l.seat.gone()
	for _, g := range l.seat.groups {
		g.count--
	}
	if l.seat.groups[ofUser].count == 0 {
		delete(ro.users, l.user)
	}
	if l.seat.groups[ofTenant].count == 0 {
		delete(ro.tenants, l.user.TenantID)
	}
}

// requeue puts a session at its place: after its client's first message, and when it is not in use any more though it
// left the queues because it was.
func (ro *roster) requeue(l *live) {
	ro.mu.Lock()
	defer ro.mu.Unlock()
	if ro.find(l.key) == l {
		queueLocked(l, l.idleSince())
	}
}

// groupOf returns a group, new when it must be.
func groupOf[K comparable](groups map[K]*group, key K, kind int) *group {
	g := groups[key]
	if g == nil {
		g = &group{kind: kind}
		groups[key] = g
	}
	return g
}

// queueLocked puts a session where it belongs in the queues when it was last used at that time.
func queueLocked(l *live, stamp time.Time) {
	l.seat.stamp = stamp
	for kind, g := range l.seat.groups {
		if i := l.seat.index[kind]; i > 0 {
			heap.Fix(g, i-1)
			continue
		}
		heap.Push(g, l)
	}
}

// unqueueLocked takes a session out of the queues, if it is in them.
func unqueueLocked(l *live) {
	for kind, g := range l.seat.groups {
		if i := l.seat.index[kind]; i > 0 {
			heap.Remove(g, i-1)
		}
	}
}

// The kinds of group.
const (
	ofTenant = iota
	ofUser
)

// limitOf returns the key of the limit that bounds a group of that kind.
func limitOf(kind int) string {
	if kind == ofUser {
		return "user_sessions"
	}
	return "sessions"
}

// group is the sessions of a tenant or of a user.
type group struct {
	kind  int
	count int     // of all of them
	queue []*live // a heap: at the front the one with the oldest stamp; those known to be in use are not in it
}

var _ heap.Interface = (*group)(nil)

// Len implements heap.Interface.
func (g *group) Len() int { return len(g.queue) }

// Less implements heap.Interface.
func (g *group) Less(i, j int) bool { return g.queue[i].seat.stamp.Before(g.queue[j].seat.stamp) }

// Swap implements heap.Interface.
func (g *group) Swap(i, j int) {
	g.queue[i], g.queue[j] = g.queue[j], g.queue[i]
	g.queue[i].seat.index[g.kind], g.queue[j].seat.index[g.kind] = i+1, j+1
}

// Push implements heap.Interface.
func (g *group) Push(l any) {
	g.queue = append(g.queue, l.(*live))
	g.queue[len(g.queue)-1].seat.index[g.kind] = len(g.queue)
}

// Pop implements heap.Interface.
func (g *group) Pop() any {
	last := len(g.queue) - 1
	l := g.queue[last]
	l.seat.index[g.kind] = 0
	g.queue[last] = nil
	g.queue = g.queue[:last]
	return l
}
