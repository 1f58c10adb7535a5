package modern

import (
	"cmp"
	"context"
	"net/http"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
)

// response is the answer to one modern request: plain JSON for as long as it can be, and
// an event stream from the first notification on. A request that takes long becomes an
// event stream too, because load balancers cut connections that are silent.
type response struct {
	endpoint *Endpoint
	x        *exchange.Exchange
	alarm    *streams.Alarm // rings after a heartbeat; nil: no stream is possible, or the answer is finished

	mu     sync.Mutex      // guards the fields below, and the connection while the call is under way
	out    *streams.Stream // nil as long as the answer is not a stream
	slot   *streams.Slot
	plain  bool // it is decided that the answer is no stream, or that nothing more is sent
	broken bool // ring panicked, and may have sent a part of something
}

// begin begins the answer to a request. p is new, or was withdrawn.
func (p *response) begin(e *Endpoint, x *exchange.Exchange) {
	p.mu.Lock() // it may ring before the alarm is here, and one that was withdrawn may still ring
	defer p.mu.Unlock()
	p.endpoint, p.x, p.plain = e, x, !x.AcceptsStream
	if !p.plain {
		p.alarm = e.alarms.Set(streams.Heartbeat, p)
	}
}

// withdraw leaves the connection to another answer. It is false if something was sent.
func (p *response) withdraw() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endpoint.alarms.Stop(&p.alarm)
	p.plain = true // it may be ringing
	return p.out == nil && !p.broken
}

// notify sends a notification. If the client accepts no stream, nothing is sent; if the
// client is gone, its context ends the call, unless it is one with a key, for which
// another may wait.
func (p *response) notify(_ context.Context, n mcp.Notification) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.openLocked() {
		return nil
	}
	p.alarm.Delay(streams.Heartbeat)
	err := p.out.Send(sse.Event{Data: mcp.AppendRequest(nil, "", n.Method, n.Params)})
	if p.x.Key != nil {
		return nil // see above
	}
	return err
}

// Ring breaks the silence on the connection. After a panic nothing more is sent before
// the call is over.
func (p *response) Ring() {
	p.mu.Lock()
	defer p.mu.Unlock()
	whole := p.endpoint.config.Exchanges.Safely(p.x.Outliving(), func() {
		if p.openLocked() && p.out.Comment() == nil {
			p.alarm.Delay(streams.Heartbeat)
		}
	})
	if !whole {
		p.broken, p.plain = true, true
	}
}

// abandonLocked gives up a stream in which ring panicked, and breaks its connection. If
// nothing was sent, the answer is plain.
func (p *response) abandonLocked() {
	if p.slot != nil {
		p.slot.Release()
	}
	if p.x.Status != 0 {
		p.x.CutShort("")
	}
}

// openLocked makes the answer a stream, unless it is one. It is false if the answer must
// be plain.
func (p *response) openLocked() bool {
	if p.plain || p.out != nil {
		return !p.plain
	}
	slot, refused := p.endpoint.config.Streams.TakeSlot(p.x, streams.KindPost)
	if refused != nil {
		p.plain = true
		return false
	}
	p.slot = slot
	p.out, _ = streams.Open(p.x) // if the client is gone, the next write fails too
	return true
}

// finish sends the result or the error, in the form that the answer has by now, and notes
// for the log which it is.
func (p *response) finish(ctx context.Context, a *exchange.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.x.Outcome, p.x.Ended = a.Outcome(), a.Ended
	p.settleLocked(a.Err == nil)
	switch {
	case p.out != nil:
		p.endLocked(p.endpoint.config.Exchanges.Payload(ctx, a, p.x.ID))
	case a.Err != nil:
		p.endpoint.config.Exchanges.DelayLimited(p.x, a.Err)
		p.x.AnswerError(a.ID, a.Err, cmp.Or(a.Status, exchange.StatusOf(a.Err.Code, mcp.Modern)))
	default:
		p.x.WriteJSON(http.StatusOK, p.endpoint.config.Exchanges.Payload(ctx, a, p.x.ID)...)
	}
}

// give is finish for a message that is made already, which has that status if the answer
// is plain.
func (p *response) give(status int, message []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settleLocked(status == http.StatusOK)
	if p.out == nil {
		p.x.WriteJSON(status, message)
		return
	}
	p.endLocked(exchange.Payload{message})
}

// settleLocked decides the form of the answer, which is there now.
func (p *response) settleLocked(succeeded bool) {
	p.endpoint.alarms.Stop(&p.alarm)
	if p.broken {
		p.abandonLocked()
	}
	if succeeded && p.x.PrefersStream {
		p.openLocked()
	}
	p.plain = true
}

// endLocked sends the answer as the last message of the stream.
func (p *response) endLocked(message exchange.Payload) {
	_ = p.out.SendMessage(message) // the client may be gone
	p.x.AllowWrite()               // of the end, which net/http writes
	p.slot.Release()
}
