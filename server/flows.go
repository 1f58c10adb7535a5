package server

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// flowWorkers is how many goroutines send at once what streams have. None of them waits
// for a client, but the log of events may be far away.
const flowWorkers = 16

// flows are the event streams that are open, and what they share instead of having it
// each: the goroutines that send, one clock, and one eye on the catalogue:
//
//	an event of the log ──────────────┐
//	an updated resource ──────────────┤
//	the end of a session, a revoked   │         queue, first come first served
//	  caller, a takeover, a client    ├─ stir ──▶ ▢▢▢▢▢▢ ──▶ workers: each sends what one flow has, without waiting
//	  that leaves                     │
//	watch: lists that changed, drain, │
//	  heartbeats, expired tokens ─────┘
//
// A flow stands in the queue once, however often it was stirred, so a tenant with much to
// say takes turns with the others. Watch and the workers run only while they have
// something to do.
//
// It is safe for concurrent use. Its mutex may be locked while that of the log is, never
// the other way round, and nothing is called while it is held.
type flows struct {
	server *Server
	kick   chan struct{} // holds a value if watch is to look again at the time or for flows

	mu       sync.Mutex // guards the fields below, and those of flows that say so
	times    timetable  // of all flows
	queue    []*flow
	workers  int
	watching bool
	// connections that were taken over, counted until they are closed and nobody reads
	// any more
	taken int
	none  chan struct{} // closed when taken is zero; nil: nobody waits for that
}

func newFlows(s *Server) *flows { return &flows{server: s, kick: make(chan struct{}, 1)} }

// add enters a flow that the calling goroutine drives.
func (fs *flows) add(f *flow) {
	now := time.Now()
	// before the flow looks at lists, so that it misses no change after that
	changed := fs.server.desk.Changed()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.server.isDraining() {
		f.ends = now // it gets what there is
	}
	fs.times.add(f, f.next(now))
	if !fs.watching {
		fs.watching = true
		go fs.watch(changed) // until there are no flows
	}
	if f.index == 0 {
		fs.look()
	}
}

// remove takes out a flow that has ended.
func (fs *flows) remove(f *flow) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.state = flowEnded
	if fs.times.remove(f); len(fs.times) == 0 {
		fs.look()
	}
}

// look makes watch look again.
func (fs *flows) look() {
	select {
	case fs.kick <- struct{}{}:
	default:
	}
}

// watch stirs flows because of the time, because lists may have changed, and when streams
// must end. It returns when there are no flows.
func (fs *flows) watch(changed <-chan struct{}) {
	draining := fs.server.draining
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, ok := fs.earliest()
		if !ok {
			return
		}
		timer.Reset(time.Until(due))
		select {
		case <-timer.C:
			fs.stirDue(time.Now())
		case <-changed:
			changed = fs.server.desk.Changed()
			fs.stirAll()
		case <-draining:
			draining = nil
			fs.endAll()
		case <-fs.kick:
		}
	}
}

// earliest returns when the next flow is to be stirred. It is false if there are none,
// and then watch ends.
func (fs *flows) earliest() (time.Time, bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if len(fs.times) == 0 {
		fs.watching = false
		return time.Time{}, false
	}
	return fs.times[0].due, true
}

// stirDue stirs those whose time has come. Until one has been driven, it is due again
// only after a heartbeat.
func (fs *flows) stirDue(now time.Time) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for len(fs.times) > 0 && !fs.times[0].due.After(now) {
		f := fs.times[0]
		fs.times.move(f, now.Add(fs.server.config.Heartbeat))
		fs.stirLocked(f)
	}
}

func (fs *flows) stirAll() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.times {
		fs.stirLocked(f)
	}
}

// When the process stops, streams end one after the other, so that thousands of clients
// do not come back in one moment: about endsEach apart, and all within endsAll.
const (
	endsEach = time.Millisecond
	endsAll  = 10 * time.Second
)

// endAll sets when each flow ends, at random.
func (fs *flows) endAll() {
	now := time.Now()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	within := min(time.Duration(len(fs.times))*endsEach, endsAll)
	for _, f := range slices.Clone(fs.times) {
		if f.ends.IsZero() {
			f.ends = now.Add(rand.N(within)) //nolint:gosec // it spreads clients, and guards nothing
			if f.ends.Before(f.due) {
				fs.times.move(f, f.ends)
			}
		}
	}
}

// endNow ends the flows whose turn has not come.
func (fs *flows) endNow() {
	now := time.Now()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.times {
		f.ends = now
		fs.stirLocked(f)
	}
}

// isDue tells whether the time of a flow has come to end because the process stops.
func (fs *flows) isDue(f *flow) bool {
	now := time.Now()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.ends.IsZero() || now.Before(f.ends) {
		return false
	}
	f.ending = true
	return true
}

// isEnding tells whether flows are about to end whose turn has not come.
func (fs *flows) isEnding() bool {
	draining, now := fs.server.isDraining(), time.Now()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return draining && slices.ContainsFunc(fs.times,
		func(f *flow) bool { return f.ends.IsZero() || now.Before(f.ends) })
}

// stir has the flow look for something to send.
func (fs *flows) stir(f *flow) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.stirLocked(f)
}

// stirToRead is stir for a flow whose log may have more. Somebody who drives the flow and
// has yet to read it does so anyway; otherwise each notice that a flow puts into its own
// log would stir it again for nothing.
func (fs *flows) stirToRead(f *flow) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.state == flowWorking {
		f.unread = true
		return
	}
	fs.stirLocked(f)
}

// reading notes that the log of the flow is about to be read.
func (fs *flows) reading(f *flow) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.unread = false
}

func (fs *flows) stirLocked(f *flow) {
	switch {
	case f.state == flowWorking:
		f.again = true
	case f.state != flowIdle:
	case f.nudge != nil:
		f.state = flowQueued
		f.nudge <- struct{}{} // there is room: the flow was idle
	default:
		fs.queueLocked(f)
	}
}

func (fs *flows) queueLocked(f *flow) {
	f.state = flowQueued
	fs.queue = append(fs.queue, f)
	if fs.workers < flowWorkers {
		fs.workers++
		go fs.work() // until the queue is empty
	}
}

// requeue has a flow that a worker drives wait for its next turn.
func (fs *flows) requeue(f *flow) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.queueLocked(f)
}

// settle notes that a flow has nothing more to send. It is false, and the flow goes on,
// if it was stirred meanwhile.
func (fs *flows) settle(f *flow) bool {
	now := time.Now()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.again || f.unread {
		f.again, f.unread = false, false
		return false
	}
	f.state = flowIdle
	fs.times.move(f, f.next(now))
	if f.index == 0 {
		fs.look()
	}
	return true
}

// resume notes that the calling goroutine drives a flow that was stirred.
func (fs *flows) resume(f *flow) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.state = flowWorking
}

// work drives the flows in the queue until there are none.
func (fs *flows) work() {
	for f := fs.first(); f != nil; f = fs.first() {
		f.turn()
	}
}

// first takes the first flow out of the queue. It returns nil if the queue is empty, and
// then the worker ends.
func (fs *flows) first() *flow {
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

// expect notes that a connection is about to be taken over. A stop that asked in between,
// when net/http has given the connection up and nobody else counts it yet, would go on
// without its stream.
func (fs *flows) expect() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.taken += 2 // the connection, and the goroutine that reads from it
}

// take notes that workers drive a flow from now on, whose connection was taken over.
func (fs *flows) take(f *flow) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f.nudge = nil
}

// gaveUp notes that a connection that was taken over was closed, or that the goroutine
// that read from it has ended.
func (fs *flows) gaveUp() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.taken--; fs.taken == 0 && fs.none != nil {
		close(fs.none)
		fs.none = nil
	}
}

// endTaken returns when no connection is left that was taken over. When ctx ends, it
// closes those that are left.
func (fs *flows) endTaken(ctx context.Context) {
	fs.endNow()
	fs.mu.Lock()
	if fs.taken == 0 {
		fs.mu.Unlock()
		return
	}
	if fs.none == nil {
		fs.none = make(chan struct{})
	}
	none := fs.none
	fs.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
		fs.cut()
		<-none
	}
}

// cut closes the connections that were taken over. Their flows end as if the clients had
// left.
func (fs *flows) cut() {
	fs.mu.Lock()
	left := slices.DeleteFunc(slices.Clone(fs.times), func(f *flow) bool { return f.nudge != nil })
	fs.mu.Unlock()
	for _, f := range left {
		_ = f.wire.conn.Close() // whatever is left had its time
	}
}
