package server

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// live is one session.
type live struct {
	key    sessionKey
	user   auth.User
	name   string // in the log of events
	expiry time.Time
	roster *roster
	seat   seat // guarded by the roster's mutex
	shared bool // it lives on all replicas

	evictedBy    string        // the limit that it was evicted for; written once, by who ends it
	suffix       string        // of its streams' names; differs between replicas
	ended        chan struct{} // closed when it has ended
	mu           sync.Mutex    // guards the fields below
	revision     string
	capabilities mcp.Object // what the client can be asked
	level        mcp.Level  // of log messages that the client wants; zero: none
	over         bool
	ready        bool // the client said that it is
	heard        bool // the client sent something since the session was opened
	unqueued     bool // it is not in the queues of the roster, as it was in use
	used         time.Time
	news         news
	jobs         map[mcp.ID]*job    // in flight
	calm         chan struct{}      // closed when no call is in flight; nil while nobody waits
	holders      map[string]*holder // of the streams that are open
	opened       int                // streams so far
}

// use notes that the session is used now. It is false when it was not for too long, or has ended.
func (l *live) use(now time.Time, idle time.Duration) bool {
	l.mu.Lock()
	if !l.isFreshLocked(now, idle) {
		l.mu.Unlock()
		return false
	}
	first := !l.heard
	l.used, l.heard = now, true
	l.mu.Unlock()
	if first {
		l.roster.requeue(l)
	}
	return true
}

func (l *live) fresh(now time.Time, idle time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isFreshLocked(now, idle)
}

// isFreshLocked tells whether the session may be used. One with a call in work or an open stream is not idle.
func (l *live) isFreshLocked(now time.Time, idle time.Duration) bool {
	return !l.over && now.Before(l.expiry) && (l.isBusyLocked() || now.Sub(l.used) <= idle)
}

// lapse says why the session is not fresh any more, for the log.
func (l *live) lapse(now time.Time) string {
	if !now.Before(l.expiry) {
		return endExpired
	}
	return endIdle
}

func (l *live) isBusyLocked() bool { return len(l.jobs) > 0 || len(l.holders) > 0 }

// yield ends the session when it is idle and was not used after stamp, to make room for another. It tells since when
// the session is idle; that is later than now for one that was opened just now, which does not end. One that is in use
// does not end either, and tells the roster when it is idle again. Who ended it, dissolves it.
func (l *live) yield(stamp, now time.Time) (since time.Time, idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isBusyLocked() {
		l.unqueued = true
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
	back := l.unqueued && !l.isBusyLocked()
	l.unqueued = l.unqueued && !back
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
	for _, j := range l.jobs {
		j.cancel(errSessionEnded)
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
func (l *live) terms() (capabilities mcp.Object, level mcp.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.capabilities, l.level
}

// agree sets what the handshake says, in a session that was opened before.
func (l *live) agree(revision string, capabilities mcp.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision, l.capabilities = revision, capabilities
}

// enter adds a call in flight. The ids of those must differ.
func (l *live) enter(j *job) *refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return errSession
	}
	if l.jobs == nil {
		l.jobs = make(map[mcp.ID]*job)
	}
	if l.jobs[j.id] != nil {
		return refuseAs(http.StatusBadRequest, mcp.CodeInvalidRequest, "Invalid request: this id is in use by a request in flight")
	}
	l.jobs[j.id] = j
	return nil
}

func (l *live) leave(j *job) {
	l.mu.Lock()
	delete(l.jobs, j.id)
	back := l.restLocked()
	if len(l.jobs) == 0 && l.calm != nil {
		close(l.calm)
		l.calm = nil
	}
	l.mu.Unlock()
	if back {
		l.roster.requeue(l)
	}
}

// calmed returns a channel that is closed when no call is in flight.
func (l *live) calmed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.jobs) == 0 {
		calm := make(chan struct{})
		close(calm)
		return calm
	}
	if l.calm == nil {
		l.calm = make(chan struct{})
	}
	return l.calm
}

// isReady tells whether notices may be sent: the client's handshake is over.
func (l *live) isReady() bool {
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
	j := l.jobs[id]
	if j != nil {
		j.cancel(errCancelled)
	}
	return j != nil
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
		l.roster.requeue(l)
	}
}

// nextStream returns a name for a new stream of the log.
func (l *live) nextStream(kind byte) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened++
	return string(kind) + strconv.Itoa(l.opened) + l.suffix
}
