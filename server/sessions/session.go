// Package sessions is the state of sessions of older eras that this replica serves: what
// was agreed on, which requests and questions are in flight, who holds their streams,
// what their clients have yet to be told, who leads them, and which one is evicted for
// another. It knows neither how a session is reached nor what a request of it does; the
// events that were sent on its streams are in server/eventlog.
//
// To read the package, begin at the top of this table. A file uses only what stands below
// it or on its line:
//
//	who leads it            lead
//	what is to be told      subscriptions
//	what is asked           questions
//	one session             session, inflight: its jobs; streamname; roster: all sessions, and eviction;
//	                        holders: who has its streams; lists: what its client was told; parts: the rest
//	how sessions end        ended
package sessions

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/server/eventlog"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// Session is one session that this instance serves. Which one is evicted for another is
// decided by the roster; these are the states that a session has by itself:
//
//	opened ──first message──▶ heard ──initialized──▶ ready: notices may be sent
//	   │                        │                      │
//	   └────────────────────────┴──────────────────────┴──▶ over: deleted, idle for too long, expired, evicted or
//	                                                        revoked; its jobs are cancelled, its streams end
//
// While its mutex is held, no other mutex of this package is locked and nothing is waited
// for.
type Session struct {
	Key    ticket.Key
	User   auth.User
	Name   string // in the log of events
	Expiry time.Time
	roster *Roster
	entry  entry // guarded by the roster's mutex
	Shared bool  // it has an entry, and any replica may come to lead it

	EvictedBy string // the limit that it was evicted for; written once, by who ends it
	suffix    string // of the names of its streams, see homeMark; "" if it is not shared

	mu      sync.Mutex // guards the fields below
	client  Client
	life    life
	leader  Leader
	work    work
	asked   map[string]*Question // that wait for answers of the client, by id; nil: none
	notices pendingNotices
	streams connections
}

// New returns a session that a ticket describes, and that the replica of that opener
// serves. It is not in the roster yet.
func New(ro *Roster, t *ticket.Ticket, p auth.Principal, opener [ticket.OpenerSize]byte,
	maxAge time.Duration, shared bool,
) *Session {
	l := &Session{
		Key: t.Key, User: p.User(), Name: t.Key.String(), Expiry: t.Opened.Add(maxAge), Shared: shared,
		roster: ro, client: Client{Terms: t.Agreed(), Principal: p}, life: life{used: time.Now()},
	}
	if shared {
		l.suffix = homeMark + hex.EncodeToString(opener[:]) + ticket.NewKey().String()[:8]
	}
	return l
}

// InLog names the session in the log of events.
func (l *Session) InLog() eventlog.Key {
	return eventlog.Key{Name: l.Name, Owner: share.User(l.User), Here: !l.Shared}
}

// Use notes that the session is being used now, with the token of p. It is false if the
// session was idle for too long, or has ended.
func (l *Session) Use(now time.Time, idle time.Duration, p auth.Principal) bool {
	l.mu.Lock()
	if !l.isFreshLocked(now, idle) {
		l.mu.Unlock()
		return false
	}
	first := l.life.stage == opened
	l.life.used, l.client.Principal = now, p
	l.life.reach(Heard)
	l.mu.Unlock()
	if first {
		l.roster.requeue(l)
	}
	return true
}

// Fresh tells whether the session may still be used.
func (l *Session) Fresh(now time.Time, idle time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isFreshLocked(now, idle)
}

// isFreshLocked tells whether the session may still be used. A session with a job or an
// open stream is not idle, however long ago its last message was.
func (l *Session) isFreshLocked(now time.Time, idle time.Duration) bool {
	return !l.life.isOver() && now.Before(l.Expiry) && (l.isBusyLocked() || now.Sub(l.life.used) <= idle)
}

// Lapse says why the session is not fresh any more, for the log.
func (l *Session) Lapse(now time.Time) string {
	if !now.Before(l.Expiry) {
		return EndExpired
	}
	return EndIdle
}

func (l *Session) isBusyLocked() bool {
	return l.work.inFlight() > 0 || l.streams.hasAny()
}

// yield ends the session to make room for another one, if it is idle and was not used
// after stamp. It returns since when the session has been idle. That time is later than
// now for a session that was opened just now: such a one does not end. A session in use
// does not end either; it tells the roster when it is idle again. The caller discards a
// session that yield ended.
func (l *Session) yield(stamp, now time.Time) (since time.Time, idle bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isBusyLocked() {
		l.life.unqueued = true
		return time.Time{}, false
	}
	since = l.life.idleSince()
	if !since.After(stamp) && !since.After(now) {
		l.life.stage, l.life.used = Over, since
	}
	return since, true
}

// IdleSince returns when the session was last used.
func (l *Session) IdleSince() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.life.idleSince()
}

// MarkUsed notes that the session was in use until now.
func (l *Session) MarkUsed() { l.changeUse(func() {}) }

// changeUse calls change, which changes what the session has in use, with the mutex
// locked, and notes that the session was in use until now. It tells the roster if the
// session is idle again.
func (l *Session) changeUse(change func()) {
	l.mu.Lock()
	change()
	l.life.used = time.Now()
	back := l.life.unqueued && !l.isBusyLocked()
	l.life.unqueued = l.life.unqueued && !back
	l.mu.Unlock()
	if back {
		l.roster.requeue(l)
	}
}

// Close ends the session. It is false if the session had ended before.
func (l *Session) Close() bool {
	l.mu.Lock()
	before := l.life.isOver()
	l.life.stage = Over
	l.mu.Unlock()
	if before {
		return false
	}
	l.Discard()
	return true
}

// Discard lets go of everything that a session that is over still has: it cancels its
// jobs, and ends its streams and subscriptions. It is called once.
func (l *Session) Discard() {
	for _, w := range l.emptied() {
		w.stop()
	}
	l.WakeStreams()
}

// emptied cancels the jobs, forgets what the client has yet to be told, and returns the
// subscriptions that are to end.
func (l *Session) emptied() (watched map[string]*Subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range l.work.jobs {
		j.Life.End(ErrSessionEnded)
	}
	watched, l.notices.watched = l.notices.watched, nil
	l.notices.updates.Close(l.memory())
	l.notices.once.Close(l.memory())
	l.notices.lost = nil
	return watched
}

// WakeStreams has the streams of the session look for something to send, or for a reason
// to end.
func (l *Session) WakeStreams() {
	l.mu.Lock()
	here, elsewhere := slices.Clone(l.streams.here), len(l.streams.elsewhere) > 0
	l.mu.Unlock()
	for _, h := range here {
		h.flow.Wake()
	}
	if elsewhere {
		l.roster.onNotices(l)
	}
}

// Client returns what the session knows of its client.
func (l *Session) Client() Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client
}

// Stage returns how far the session has come.
func (l *Session) Stage() Stage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.life.stage
}

// Reach notes that the session has come that far, here or elsewhere.
func (l *Session) Reach(s Stage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.life.reach(s)
}

// Agree sets what the handshake decides. It is for sessions that are opened before their
// handshake.
func (l *Session) Agree(on ticket.Terms) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.client.Terms = on
}

// IsBusy tells whether the session has calls in flight or streams.
func (l *Session) IsBusy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isBusyLocked()
}

// ShortName names the session in the log: enough to find all its lines, and not part of
// its id.
func (l *Session) ShortName() string { return l.Name[:12] }

// Priming returns the event with which a connection begins that sends a stream from after
// the event of that id, since revision 2025-11-25; nil for older ones. It has this id but
// no message, so that the client can resume before any other event has come: many clients
// forget the id with which they resumed. It does not say when to resume: the Java SDK
// gives up a stream with that field in it, and the others wait for a second anyway.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server
func (l *Session) Priming(after string) *sse.Event {
	if l.Client().Revision < mcp.Revision2511 {
		return nil
	}
	return &sse.Event{ID: after, HasID: true, Data: []byte{}}
}

// ErrSessionEnded is the cause of a call's end with its session; see
// exchange.ErrCancelled.
var ErrSessionEnded = fmt.Errorf("the session has ended: %w", context.Canceled)
