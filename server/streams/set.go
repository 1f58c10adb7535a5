// Package streams is the event streams that are open to clients: it takes their
// connections over from net/http, sends what there is with a few goroutines, and ends
// each at its time. What a stream says comes from a Source; the package knows neither
// eras nor sessions.
//
// To read the package, begin at the top of this table. A file uses only what stands below
// it or on its line:
//
//	how a stream is held    set: all that are open; slot: how many; flow: one of them; wire: its connection;
//	                        stream: its events; writenow: without waiting
//	before it is a stream   alarm: an answer that takes long becomes one
package streams

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// FlowWorkers is how many goroutines send at once what streams have. None of them waits
// for a client, but the log of events may be far away.
const FlowWorkers = 16

// Heartbeat is how long a stream may be silent before a comment. It is also when an
// answer that takes long becomes one, and when what could not be done is tried again.
const Heartbeat = 20 * time.Second

// Set is the event streams that are open, and what they share instead of having it
// each: the goroutines that send, and what wakes all of them:
//
//	an event of the log ──────────────┐
//	an updated resource ──────────────┤
//	the end of a session, a revoked   │         queue, first come first served
//	  caller, a takeover, a client    ├─ wake ──▶ ▢▢▢▢▢▢ ──▶ workers: each sends what one flow has, without waiting
//	  that leaves                     │
//	lists that changed ───────────────┤
//	its timer: ends, heartbeats,      │
//	  expired tokens ─────────────────┘
//
// A flow stands in the queue once, however often it was woken, so a tenant with much to
// say takes turns with the others. The workers run only while they have something to do.
//
// It is safe for concurrent use. Its mutex may be locked while that of the log is, never
// the other way round, and nothing is called while it is held.
type Set struct {
	config Config
	slots  *share.Budget

	draining atomic.Bool // set by End

	mu      sync.Mutex // guards the fields below, and those of flows that say so
	open    map[*Flow]struct{}
	queue   []*Flow
	workers int
	// connections that were taken over, until they are closed, and the goroutines that
	// read from them
	taken int
	fewer sync.Cond // taken has changed
}

// Config is what a set needs. Every field is required.
type Config struct {
	Exchanges *exchange.Service
	Turns     *fairqueue.Queue // at writing what is large
	Most      int64            // streams at once, of which one tenant alone gets half
}

// New returns an empty set.
func New(cfg Config) *Set {
	fs := &Set{config: cfg, slots: share.New(cfg.Most), open: make(map[*Flow]struct{})}
	fs.fewer.L = &fs.mu
	cfg.Exchanges.Desk.OnChange(fs.WakeAll)
	return fs
}

// When the process stops, streams end one after the other, so that thousands of clients
// do not come back in one moment: about endsEach apart, and all within endsAll.
const (
	endsEach = time.Millisecond
	endsAll  = 10 * time.Second
)

// End ends every stream, each at a time of its own, at random.
func (fs *Set) End() {
	now := time.Now()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.draining.Store(true)
	within := min(time.Duration(len(fs.open))*endsEach, endsAll)
	for f := range fs.open {
		if f.ends.IsZero() {
			f.ends = now.Add(rand.N(within)) //nolint:gosec // it spreads clients, and guards nothing
			if f.state == flowIdle {
				f.timer.Reset(time.Until(f.next()))
			}
		}
	}
}

// flows returns the open flows of which something is so.
func (fs *Set) flows(is func(*Flow) bool) []*Flow {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Keys(fs.open)), func(f *Flow) bool { return !is(f) })
}

// Reauthorize ends the streams whose callers are not accepted any more, besides those
// that answer a POST. It returns how many they were.
func (fs *Set) Reauthorize(accepts func(auth.Principal) bool) (ended int) {
	for _, f := range fs.flows((*Flow).Lasts) {
		if !accepts(f.slot.Principal) && !f.revoked.Swap(true) {
			f.Wake()
			ended++
		}
	}
	return ended
}

// IsDraining tells whether End was called.
func (fs *Set) IsDraining() bool { return fs.draining.Load() }

// add enters a flow that the calling goroutine drives.
func (fs *Set) add(f *Flow) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.IsDraining() {
		f.ends = time.Now() // it gets what there is
	}
	f.timer = time.AfterFunc(Heartbeat, f.Wake)
	fs.open[f] = struct{}{} // before the flow looks at lists, so that it misses no change after that
}

// remove takes out a flow that has ended.
func (fs *Set) remove(f *Flow) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.state = flowEnded
	f.timer.Stop()
	delete(fs.open, f)
}

// WakeAll has all flows look for something to send.
func (fs *Set) WakeAll() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for f := range fs.open {
		fs.wakeLocked(f)
	}
}

// noteDue notes whether the time of a flow, which is about to be driven, has come to end
// because the process stops.
func (fs *Set) noteDue(f *Flow) {
	now := time.Now()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.due = !f.ends.IsZero() && !now.Before(f.ends)
}

// IsEnding tells whether flows are about to end whose turn has not come.
func (fs *Set) IsEnding() bool {
	now := time.Now()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for f := range fs.open {
		if now.Before(f.ends) {
			return true
		}
	}
	return false
}

// Reading notes that the log of the flow is about to be read.
func (fs *Set) Reading(f *Flow) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.unread = false
}

func (fs *Set) wakeLocked(f *Flow) {
	switch {
	case f.state == flowWorking:
		f.again = true
	case f.state != flowIdle:
	case f.resumed != nil:
		f.state = flowWorking
		f.resumed <- struct{}{} // there is room: the flow was idle
	default:
		fs.queueLocked(f)
	}
}

func (fs *Set) queueLocked(f *Flow) {
	f.state = flowQueued
	fs.queue = append(fs.queue, f)
	if fs.workers < FlowWorkers {
		fs.workers++
		go fs.work() // until the queue is empty
	}
}

// requeue has a flow that a worker drives wait for its next turn.
func (fs *Set) requeue(f *Flow) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.queueLocked(f)
}

// settle notes that a flow has nothing more to send. It is false, and the flow goes on,
// if it was woken meanwhile.
func (fs *Set) settle(f *Flow) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.again || f.unread {
		f.again, f.unread = false, false
		return false
	}
	f.state = flowIdle
	f.timer.Reset(time.Until(f.next()))
	return true
}

// work drives the flows in the queue until there are none.
func (fs *Set) work() {
	for f := fs.first(); f != nil; f = fs.first() {
		f.turn()
	}
}

// first takes the first flow out of the queue. It returns nil if the queue is empty, and
// then the worker ends.
func (fs *Set) first() *Flow {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if len(fs.queue) == 0 {
		fs.queue = nil
		fs.workers--
		return nil
	}
	f := fs.queue[0]
	fs.queue[0] = nil // or the array behind the queue would keep it alive
	fs.queue = fs.queue[1:]
	f.state = flowWorking
	return f
}

// take notes that workers drive a flow from now on, whose connection was taken over.
func (fs *Set) take(f *Flow) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.resumed = nil
}

// Taken returns how many connections that were taken over, and goroutines that read from
// one, are left. Tests wait for the first.
func (fs *Set) Taken() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.taken
}

// countTaken notes that there are so many more of these, or fewer.
func (fs *Set) countTaken(more int) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.taken += more
	fs.fewer.Broadcast()
}

// EndTaken ends the flows whose turn has not come, and returns when no connection is left
// that was taken over. When ctx ends, it closes those that are left.
func (fs *Set) EndTaken(ctx context.Context) {
	now := time.Now()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for f := range fs.open {
		f.ends = now
		fs.wakeLocked(f)
	}
	defer context.AfterFunc(ctx, fs.cut)()
	for fs.taken > 0 {
		fs.fewer.Wait()
	}
}

// cut closes the connections that were taken over. Their flows end as if the clients had
// left.
func (fs *Set) cut() {
	for _, f := range fs.flows(func(f *Flow) bool { return f.resumed == nil }) {
		_ = f.wire.conn.Close() // whatever is left had its time
	}
}
