package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Bounds of the progress of one round of a call: so much at once, and later one in each
// gap on average. A person sees no more than that. A server in a loop sends a hundred
// thousand a second, and to clean and pass on each would cost the time of all other
// callers.
const (
	progressBurst = 32
	progressGap   = 100 * time.Millisecond
	maxProgress   = 64 << 10 // bytes of a notification, as JSON, beyond which it does not wait: it is dropped
)

// relay passes the notifications of one round of a call on to its client, one at a time.
// Of progress that comes faster than its bounds allow, only the latest is kept, and
// passed on as soon as they do, at the latest before the result. So a client always
// learns the last state, and what it learns grows as what the server said grew. The relay
// looks at nothing in a notification, and notifications that are left out are not
// cleaned. It is safe for concurrent use.
//
//	progress ──▶ within the bounds ─────────────────────────────▶ send
//	         └─▶ beyond: latest ──▶ when the gap is over, or at the end
//
// It is a part of the call, because every call has one and few use it.
type relay struct {
	to  recipient
	ctx context.Context //nolint:containedctx // of the use of the item, with which the relay ends

	mu     sync.Mutex  // held while send runs; guards the fields below
	paid   time.Time   // up to then the progress that was sent has used up its gaps
	latest mcp.RawJSON // params of progress that waits; nil: none does
	due    *time.Timer // sends it; nil: none waits
	left   int         // progress that was replaced by later one, or too large to wait
	ended  bool
}

// recipient gets what a relay passes on, one at a time.
type recipient interface {
	send(ctx context.Context, n mcp.Notification) error
}

// pass passes a notification on that is no progress.
func (r *relay) pass(n mcp.Notification) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	return r.to.send(r.ctx, n)
}

// progress passes progress on, now or later.
func (r *relay) progress(n mcp.Notification) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	wait := time.Until(r.paid.Add(-(progressBurst - 1) * progressGap))
	if r.latest == nil && wait <= 0 {
		return r.sendLocked(n)
	}
	if n.Params.Size() > maxProgress {
		r.left++
		return nil
	}
	params := n.Params.JSON() // a copy: what waits must not keep the text in memory in which it came
	if r.latest != nil {
		r.left++
	} else {
		r.due = time.AfterFunc(wait, r.catchUp)
	}
	r.latest = params
	return nil
}

// sendLocked sends progress and lets it use up its gap.
func (r *relay) sendLocked(n mcp.Notification) error {
	if now := time.Now(); r.paid.Before(now) {
		r.paid = now
	}
	r.paid = r.paid.Add(progressGap)
	return r.to.send(r.ctx, n)
}

// catchUp sends the progress that waits.
func (r *relay) catchUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended && r.latest != nil {
		r.flushLocked()
	}
}

// flushLocked sends the progress that waits. That fails only when the client has gone.
func (r *relay) flushLocked() {
	params, _ := mcp.ObjectOf(r.latest)
	r.latest = nil
	_ = r.sendLocked(mcp.Notification{Method: mcp.NotifyProgress, Params: params})
}

// end sends the progress that waits, if ctx goes on, and passes nothing on any more. It
// returns how much progress was left out.
func (r *relay) end(ctx context.Context) (left int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due != nil {
		r.due.Stop()
	}
	if r.latest != nil && ctx.Err() == nil {
		r.flushLocked()
	}
	r.ended = true
	return r.left
}

// logs counts log messages. It is safe for concurrent use.
type logs struct{ messages, bytes atomic.Int64 }

// admit tells whether one more message may pass. After the first message beyond a bound,
// none passes any more.
func (l *logs) admit(params mcp.Object) bool {
	return l.messages.Add(1) <= maxLogs && l.bytes.Add(int64(params.Size())) <= maxLogBytes
}

// Bounds of the log messages that one round of a call may send. Further ones are dropped,
// and the drop is counted.
// https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging#implementation-considerations
const (
	maxLogs     = 1_000
	maxLogBytes = 1 << 20 // of their params, as JSON
)
