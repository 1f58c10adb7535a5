package server

import (
	"context"
	"encoding/hex"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/session"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// live is one session that this instance serves. Which one is evicted for another is
// decided by the roster; these are the states that a session has by itself:
//
//	opened ──first message──▶ heard ──initialized──▶ ready: notices may be sent
//	   │                        │                      │
//	   └────────────────────────┴──────────────────────┴──▶ over: deleted, idle for too long, expired, evicted or
//	                                                        revoked; its jobs are cancelled, its streams end
//
// While its mutex is held, no other mutex of this package is locked and nothing is waited
// for.
type live struct {
	key    ticket.Key
	user   auth.User
	name   string // in the log of events
	expiry time.Time
	roster *roster
	seat   seat // guarded by the roster's mutex
	shared bool // it has a record, and any replica may come to lead it

	evictedBy string     // the limit that it was evicted for; written once, by who ends it
	suffix    string     // of the names of its streams, see homeMark; "" if it is not shared
	mu        sync.Mutex // guards the fields below
	ticket.Terms
	level     mcp.Level      // of log messages that the client wants; zero: none
	principal auth.Principal // of the token that was last used
	over      bool
	retired   bool // it takes no further request, because its stream is about to end
	ready     bool // the client has confirmed the handshake
	heard     bool // the client has sent a message since the session was opened
	unqueued  bool // the roster took it out of its queues, because it was in use
	awaited   bool // streams wait until no job is in flight, and are to be woken then
	used      time.Time
	news      news
	lead      lead
	calm      func()                   // called when no job is in flight any more; nil: nobody waits for that
	jobs      map[mcp.ID]*exchange.Job // in flight, of which the answer is not on its way to the client yet
	answering int32                    // jobs in flight of which it is
	asked     map[string]*question     // that wait for answers of the client, by id; nil: none
	opening   map[string]chan struct{} // streams that are about to be opened; nil: none; closed when they are
	// of the streams that are open; few, so a map would take more memory and no less time
	holders []*holder
	opened  int32 // how many streams it has had
}

// inLog names the session in the log of events.
func (l *live) inLog() session.Key {
	return session.Key{Name: l.name, Owner: share.User(l.user), Here: !l.shared}
}

// use notes that the session is being used now, with the token of p. It is false if the
// session was idle for too long, or has ended.
func (l *live) use(now time.Time, idle time.Duration, p auth.Principal) bool {
	l.mu.Lock()
	if !l.isFreshLocked(now, idle) {
		l.mu.Unlock()
		return false
	}
	first := !l.heard
	l.used, l.heard, l.principal = now, true, p
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

// isFreshLocked tells whether the session may still be used. A session with a job or an
// open stream is not idle, however long ago its last message was.
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

func (l *live) isBusyLocked() bool {
	return l.inFlightLocked() > 0 || len(l.holders) > 0
}

// yield ends the session to make room for another one, if it is idle and was not used
// after stamp. It returns since when the session has been idle. That time is later than
// now for a session that was opened just now: such a one does not end. A session in use
// does not end either; it tells the roster when it is idle again. The caller dissolves a
// session that yield ended.
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

// restLocked notes that the session was in use until now. If it is true, the caller must
// tell the roster that the session is idle again, after unlocking the mutex.
func (l *live) restLocked() bool {
	l.used = time.Now()
	back := l.unqueued && !l.isBusyLocked()
	l.unqueued = l.unqueued && !back
	return back
}

// rested is restLocked for who does not hold the mutex, and tells the roster.
func (l *live) rested() {
	l.mu.Lock()
	back := l.restLocked()
	l.mu.Unlock()
	if back {
		l.roster.requeue(l)
	}
}

// close ends the session. It is false if the session had ended before.
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

// dissolve lets go of everything that a session that is over still has: it cancels its
// jobs, and ends its streams and subscriptions. It is called once.
func (l *live) dissolve() {
	for _, w := range l.emptied() {
		w.end()
	}
	l.wakeStreams()
}

// emptied cancels the jobs, forgets what the client has yet to be told, and returns the
// subscriptions that are to end.
func (l *live) emptied() (watched map[string]*watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.jobs {
		j.Life.End(errSessionEnded)
	}
	watched, l.news.watched = l.news.watched, nil
	if l.news.updates != nil {
		l.news.updates.Close()
	}
	l.news.lost, l.news.reopening = nil, nil
	return watched
}

// wakeStreams has the streams of the session look for something to send, or for a reason to end.
func (l *live) wakeStreams() {
	l.mu.Lock()
	flows, elsewhere := make([]*streams.Flow, 0, len(l.holders)), false
	for _, h := range l.holders {
		if h.flow == nil {
			elsewhere = true
			continue
		}
		flows = append(flows, h.flow)
	}
	l.mu.Unlock()
	for _, f := range flows {
		f.Wake()
	}
	if elsewhere {
		l.roster.outbox.add(l)
	}
}

// lastPrincipal returns whose token was last used in the session. It is always one of the
// owner, but the owner's client gets a new token now and then.
func (l *live) lastPrincipal() auth.Principal {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.principal
}

// speaks returns the negotiated revision.
func (l *live) speaks() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Revision
}

// wants returns what was agreed on with the client, and the level of log messages that it
// wants.
func (l *live) wants() (agreed ticket.Terms, level mcp.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Terms, l.level
}

// agree sets what the handshake decides. It is for sessions that are opened before their
// handshake.
func (l *live) agree(on ticket.Terms) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Terms = on
}

// enter adds a job. Two jobs of a session at the same time must not have the same id.
func (l *live) enter(j *exchange.Job) *exchange.Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return exchange.ErrSession
	case l.retired:
		return exchange.ErrDraining
	}
	if l.jobs == nil {
		l.jobs = make(map[mcp.ID]*exchange.Job)
	}
	if l.jobs[j.ID] != nil || l.lead.running[j.ID] {
		return exchange.ErrIDInUse
	}
	l.jobs[j.ID] = j
	return nil
}

// answered frees the id of a job, which is still in flight. A client may use it again as
// soon as it has the answer, and that may be before the job leaves.
func (l *live) answered(j *exchange.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !j.Answered {
		delete(l.jobs, j.ID)
		j.Answered = true
		l.answering++
	}
}

// inFlightLocked returns how many jobs are in flight.
func (l *live) inFlightLocked() int { return len(l.jobs) + int(l.answering) }

// leave takes a job out.
func (l *live) leave(j *exchange.Job) {
	l.answered(j)
	l.mu.Lock()
	l.answering--
	back := l.restLocked()
	calm := l.awaited && l.inFlightLocked() == 0
	l.awaited = l.awaited && !calm
	var then func()
	if l.inFlightLocked() == 0 {
		then, l.calm = l.calm, nil
	}
	l.mu.Unlock()
	if calm {
		l.wakeStreams()
	}
	if then != nil {
		then()
	}
	if back {
		l.roster.requeue(l)
	}
}

// isCalm tells whether no job of the session is in flight. If one is, the streams are
// woken when none is any more.
func (l *live) isCalm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awaited = l.inFlightLocked() > 0
	return !l.awaited
}

// whenCalm has then called when no job of the session is in flight any more. It is true,
// and nothing is called, if none is.
func (l *live) whenCalm(then func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlightLocked() == 0 {
		return true
	}
	l.calm = then
	return false
}

// isBusy tells whether the session has calls in flight or streams.
func (l *live) isBusy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isBusyLocked()
}

// runsFormerly tells whether the replica that led the session before answers a request of
// that id.
func (l *live) runsFormerly(id mcp.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lead.running[id]
}

// retire has the session take no further request.
func (l *live) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retired = true
}

// isOver tells whether the session has ended.
func (l *live) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// isReady tells whether notices may be sent, which is after the handshake.
func (l *live) isReady() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ready
}

// begin notes that the handshake is over.
func (l *live) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready = true
}

// cancel cancels the job with that id. It is false if there is none on this instance.
func (l *live) cancel(id mcp.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.jobs[id]
	if j != nil {
		j.Life.End(exchange.ErrCancelled)
	}
	return j != nil
}

// holder is a connection that sends a stream of the log, here or at another replica.
type holder struct {
	stream   string
	flow     *streams.Flow // nil: it is at another replica
	listener *listener     // there; nil: it is here
	lost     atomic.Bool   // another connection takes over
	// closed when this one sends nothing more; nil: nobody waits for that; guarded by the
	// mutex of the session
	gone chan struct{}
}

// holderLocked returns who holds a stream of the log, nil if nobody does.
func (l *live) holderLocked(stream string) *holder {
	for _, h := range l.holders {
		if h.stream == stream {
			return h
		}
	}
	return nil
}

// hold gives a stream of the log to one connection. It takes the stream away from the
// connection that had it and waits until that one has sent its last event: otherwise both
// might send the same event. release is called once, even after an error, which is that
// of ctx.
func (l *live) hold(ctx context.Context, stream string, f *streams.Flow) (mine *holder, err error) {
	mine = &holder{stream: stream, flow: f}
	l.mu.Lock()
	before, gone := l.holderLocked(stream), make(chan struct{})
	if before != nil && before.flow != nil {
		before.gone = gone
		l.holders[slices.Index(l.holders, before)] = mine
	} else {
		l.holders = append(l.holders, mine)
	}
	l.mu.Unlock()
	if before == nil || before.flow == nil {
		return mine, nil
	}
	before.lost.Store(true)
	before.flow.Wake()
	select {
	case <-gone:
		return mine, nil
	case <-ctx.Done():
		return mine, ctx.Err()
	}
}

// release gives the stream back, unless another connection has taken it.
func (l *live) release(mine *holder) {
	l.mu.Lock()
	l.holders = slices.DeleteFunc(l.holders, func(h *holder) bool { return h == mine })
	back := l.restLocked()
	if mine.gone != nil {
		close(mine.gone)
	}
	l.mu.Unlock()
	if back {
		l.roster.requeue(l)
	}
}

// nextStream returns a new name for a stream of the log. kind is its first byte: g for a
// stream opened by GET, p for the answer to a POST. It names the request that it answers,
// if there is one: see homeOfStream.
func (l *live) nextStream(kind byte, answers mcp.ID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened++
	name := string(kind) + strconv.Itoa(int(l.opened)) + l.suffix
	if l.shared && answers != "" && len(answers) <= maxNamedID {
		name += requestMark + hex.EncodeToString([]byte(answers))
	}
	return name
}
