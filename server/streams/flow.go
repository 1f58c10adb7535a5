package streams

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// What advance and the methods of a source return if a flow cannot go on as it is.
var (
	ErrEnded = errors.New("the stream has ended")     // properly: the client is told so
	errLeft  = errors.New("the client is gone")       // or too slow
	errFull  = errors.New("the client takes no more") // now: what is left comes when it may be waited for
)

// Source is where the events of a flow come from: a stream of the log of a session, or a
// subscription. One goroutine at a time uses it.
type Source interface {
	// Open answers the request with the beginning of the stream. After an error, the
	// stream that it returns is nil if nothing was answered. It is called once, before
	// all others, in the goroutine of the request.
	Open(ctx context.Context, x *exchange.Exchange) (*Stream, error)
	// Step sends what there is to send now. It returns nil if more may follow, ErrEnded
	// after the last event, errFull if it is to be called again when the client may be
	// waited for, and any other error if the client is gone.
	Step(ctx context.Context, out *Stream) error
	// SendEnd sends what tells the client that the stream ended properly. It may return
	// errFull, like Step.
	SendEnd(out *Stream) error
	// Close lets go of all that the source has, before the client sees the end. revoked
	// tells whether the stream ended because its caller is not accepted any more. It is
	// called once.
	Close(ctx context.Context, revoked bool)
}

// Flow is one event stream that is open to a client. It has no goroutine of its own that
// sends: whatever happens wakes it, and then one of the shared workers sends what there
// is (see Set):
//
//	          woken               a worker has time
//	┌─ idle ───────────▶ queued ───────────────────────▶ working ──┐
//	│   ▲ ▲                ▲                              │   │    │ over, or the client is gone
//	│   │ │                └──woken meanwhile───────────┤   │    ▼
//	│   │ └───────────nothing more to send────────────────┘   │  ended
//	│   │                                                     │    ▲
//	│   └──caught up── slow ◀──the client takes no more───────┘    │
//	│                   └──────────────────────────────────────────┤
//	└──the client leaves: that wakes it, too ──────────────────────┘
//
// A slow flow has a goroutine of its own for as long as the client lags behind, so a
// worker never waits for a client. Were the workers to wait, a few clients that read
// nothing would hold up the streams of everybody.
//
// At first the goroutine of the request drives a flow in the same states. When all has
// been sent that there was, the flow takes the connection over from net/http (see wire),
// and the goroutine ends with everything that net/http has. Where that is not possible,
// the goroutine stays, and waits for what wakes the flow.
type Flow struct {
	set    *Set
	source Source
	// nil: the stream answers a POST and ends with it, and its slot is none of the flow's
	// business
	slot  *Slot
	out   *Stream            // nil: nothing was answered yet
	wire  *wire              // nil: net/http has the connection
	entry *exchange.LogEntry // of the log of requests; nil: net/http has the connection
	gone  atomic.Bool        // the client has left
	// its caller is not accepted any more, so the stream must end
	revoked atomic.Bool

	// The mutex of the set guards what follows.
	state   flowState
	again   bool          // woken while somebody drives it
	unread  bool          // the log may have more than was read
	resumed chan struct{} // wakes the goroutine of the request; nil: workers drive it
	timer   *time.Timer   // wakes it because of the time
	ends    time.Time     // when it ends because the process stops; zero: that does not stop
	due     bool          // it was driven since then; whoever drives it reads it as it is
}

type flowState uint8

const (
	flowWorking flowState = iota // somebody drives it
	flowIdle
	flowQueued
	flowEnded
)

// NewFlow returns a flow that the calling goroutine drives, and enters it among those
// that are woken.
func (fs *Set) NewFlow(from Source, slot *Slot) *Flow {
	f := &Flow{set: fs, source: from, slot: slot, resumed: make(chan struct{}, 1)}
	fs.add(f)
	return f
}

// Appended implements eventlog.Follower. Somebody who drives the flow and has yet to read
// its log does so anyway; otherwise each notice that a flow puts into its own log would
// wake it again for nothing.
func (f *Flow) Appended() {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	if f.state == flowWorking {
		f.unread = true
		return
	}
	f.set.wakeLocked(f)
}

// Wake has the flow look for something to send, or for a reason to end.
func (f *Flow) Wake() {
	f.set.mu.Lock()
	defer f.set.mu.Unlock()
	f.set.wakeLocked(f)
}

// Serve sends the flow in the goroutine of its request, until the stream ends or the flow
// has taken the connection over. Everything is given back when the stream ends, by
// whoever drives the flow then.
func (f *Flow) Serve(ctx context.Context, x *exchange.Exchange) {
	defer func() { // also after a panic
		if !x.Taken {
			f.abandon(ctx, x)
		}
	}()
	if f.slot != nil && x.IsOutdated() { // since it got its slot, and before it was among the open ones
		f.revoked.Store(true)
	}
	var err error
	if f.out, err = f.source.Open(ctx, x); err != nil {
		return
	}
	for f.advance(ctx) == nil {
		if f.take(x) || f.await(ctx) != nil {
			return
		}
	}
}

// Begin answers the request with the event stream of the flow. If that takes the
// connection over from net/http, the client is told that nothing follows it there.
func (f *Flow) Begin(x *exchange.Exchange) (*Stream, error) {
	if f.canTake(x) {
		x.Header().Set("Connection", "close")
	}
	return Open(x)
}

// abandon ends the flow in the goroutine of its request.
func (f *Flow) abandon(ctx context.Context, x *exchange.Exchange) {
	defer f.set.remove(f)
	if f.close(ctx) {
		x.Outcome = exchange.OutcomeRevoked
	}
	if f.out != nil {
		x.AllowWrite() // of the end, which net/http writes
	}
}

// await waits until the flow is woken, in the goroutine of the request.
func (f *Flow) await(ctx context.Context) error {
	if !f.set.settle(f) {
		return nil
	}
	select {
	case <-f.resumed:
		return nil
	case <-ctx.Done():
		return errLeft
	}
}

// advance sends what there is to send now. It returns nil if more may follow; errFull if
// the client does not take all that there is, and may be waited for only by a goroutine
// of the flow's own; ErrEnded if the stream has ended, and another error if the client is
// gone.
func (f *Flow) advance(ctx context.Context) error {
	if f.gone.Load() {
		return errLeft
	}
	f.set.noteDue(f) // whether the source asks or not, or the time would wake it without end
	err := ErrEnded
	if !f.isOver() {
		err = f.source.Step(ctx, f.out)
	}
	if err == nil && time.Since(f.out.last) >= Heartbeat {
		err = f.out.Comment()
	}
	if errors.Is(err, ErrEnded) {
		if err := f.source.SendEnd(f.out); err != nil {
			return err
		}
	}
	return err
}

// isOver tells whether the caller has lost the right to the stream, or its time is over.
func (f *Flow) isOver() bool {
	return f.slot != nil && (f.revoked.Load() || !f.expires().IsZero() &&
		!time.Now().Before(f.expires()))
}

// IsDue tells, in Step, whether the time of the stream has come to end because the
// process stops.
func (f *Flow) IsDue() bool { return f.due }

// expires returns when the stream ends because its token has expired, the zero time if it
// does not.
func (f *Flow) expires() time.Time {
	if f.slot == nil || f.slot.Principal.Expiry.IsZero() {
		return time.Time{}
	}
	return f.slot.Principal.Expiry.Add(expiryLeeway)
}

// Lasts tells whether the stream lasts for as long as its client wants: it does not
// answer a POST.
func (f *Flow) Lasts() bool { return f.slot != nil }

// next returns when the flow, of which all there is has been sent, is to be woken because
// of the time: to break the silence, or to end. It is called with the mutex of the set.
func (f *Flow) next() time.Time {
	due := f.out.last.Add(Heartbeat)
	if !f.ends.IsZero() && !f.due && f.ends.Before(due) {
		due = f.ends
	}
	if end := f.expires(); !end.IsZero() && end.Before(due) {
		return end
	}
	return due
}

// close gives back all that the stream has, but for the connection. It tells whether the
// caller is not accepted any more, which is then why the stream ended.
func (f *Flow) close(ctx context.Context) (revoked bool) {
	if f.slot == nil {
		f.source.Close(ctx, false)
		return false
	}
	defer f.slot.Release()
	revoked = !f.set.config.Exchanges.Accepts(f.slot.Principal)
	f.source.Close(ctx, revoked)
	return revoked
}

// turn sends what a flow has, as a worker: without waiting for the client. What the
// client does not take at once is sent by a goroutine of the flow's own.
func (f *Flow) turn() {
	err := f.advanceSafely()
	switch {
	case errors.Is(err, errFull) || f.wire.lags():
		go f.catchUp(err) // until the client has caught up, or is too slow; EndTaken waits for it
	case err != nil:
		f.finish(err)
	case !f.set.settle(f):
		f.set.requeue(f)
	}
}

// catchUp sends what a flow has, and gives its client as much time for each write as any
// other answer does. err is what advance returned.
func (f *Flow) catchUp(err error) {
	for {
		f.wire.waits = true
		if late := f.wire.sendUnsent(); late != nil {
			err = late
		}
		if err != nil && !errors.Is(err, errFull) {
			f.finish(err)
			return
		}
		if err = f.advanceSafely(); err != nil {
			continue
		}
		f.wire.waits = false
		if f.set.settle(f) {
			return
		}
	}
}

// advanceSafely is advance for goroutines that no HTTP handler recovers. After a panic
// the client is cut off.
func (f *Flow) advanceSafely() (err error) {
	defer f.recovered(&err)
	return f.advance(context.Background()) // the request is over for net/http
}

// recovered turns a panic into a line in the log, and sets err.
func (f *Flow) recovered(err *error) {
	if problem := recover(); problem != nil {
		f.set.config.Exchanges.Panicked(f.entry.Context(), problem)
		*err = errLeft
	}
}
