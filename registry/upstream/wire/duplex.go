package wire

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// duplex is what transports share on which everything that the server says comes in one stream: who waits for which
// answer, and the loss of the connection. It is safe for concurrent use.
type duplex struct {
	up      Events
	read    reader
	waiting pending
	tellOut func(context.Context, []byte) // sends an answer in the background

	legacy atomic.Bool // a handshake was done

	gone  chan struct{} // closed when the connection is lost, after cause was set
	lose  sync.Once
	cause error
}

func newDuplex(up Events) duplex {
	return duplex{up: up, read: reader{up.Count}, waiting: newPending(), gone: make(chan struct{})}
}

// lost records why the connection ended and wakes all who wait. Only the first cause counts.
func (d *duplex) lost(cause error) {
	d.lose.Do(func() {
		d.cause = cause
		close(d.gone)
	})
}

// exchange sends a request and waits for its answer. send returns when the request is on its way.
func (d *duplex) exchange(ctx context.Context, out *Request, send func(ctx context.Context, body []byte) error) (mcp.Object, error) {
	w := d.waiting.add(out)
	defer d.waiting.remove(out.ID)
	if err := send(ctx, out.Body); err != nil {
		return mcp.Object{}, err
	}
	return d.await(ctx, out, w, nil)
}

// await waits for the answer to a request that is on its way. failed may tell that it did not get there; nil: it will.
func (d *duplex) await(ctx context.Context, out *Request, w *waiter, failed <-chan error) (mcp.Object, error) {
	for {
		select {
		case m := <-w.notes:
			out.deliver(ctx, m)
		case a := <-w.answer:
			return d.finish(ctx, out, w, a)
		case err := <-failed:
			if err != nil {
				return mcp.Object{}, err
			}
			failed = nil
		case <-ctx.Done():
			return mcp.Object{}, ctx.Err()
		case <-d.gone:
			select {
			case a := <-w.answer:
				return d.finish(ctx, out, w, a)
			default:
				return mcp.Object{}, unavailable(true, d.cause)
			}
		}
	}
}

// finish delivers the notifications that came before the answer, then the answer.
func (d *duplex) finish(ctx context.Context, out *Request, w *waiter, a answer) (mcp.Object, error) {
	for {
		select {
		case m := <-w.notes:
			out.deliver(ctx, m)
			continue
		default:
		}
		if a.err != nil {
			return mcp.Object{}, protocol("read answer: %w", a.err)
		}
		if a.message.Err != nil {
			return mcp.Object{}, a.message.Err
		}
		return a.message.Result, nil
	}
}

// Begin is told of legacy handshakes only. Such a server tells changes of its lists without being asked.
func (d *duplex) Begin(string, string) {
	d.legacy.Store(true)
	d.up.Following(true, false)
}

// Follow waits for the loss of the connection: what the server sends on its own arrives with the rest.
func (d *duplex) Follow(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-d.gone:
		return unavailable(true, d.cause)
	}
}

// oversized accounts for a message that was dropped because of its size. When one request waits, it was its answer.
func (d *duplex) oversized() {
	d.up.Count(Oversized, 1)
	if id, one := d.waiting.only(); one {
		d.waiting.resolve(id, answer{err: ErrTooLarge})
	}
}

// take takes one text that is not empty. Servers print all kinds of things; what is no message is dropped.
func (d *duplex) take(ctx context.Context, text []byte) {
	if text[0] != '{' && text[0] != '[' {
		d.up.Count(Garbage, 1)
		return
	}
	messages, err := d.read.messages(text)
	if err != nil {
		d.up.Count(Garbage, 1)
		d.badAnswer(text, err)
		return
	}
	for _, m := range messages {
		d.dispatch(ctx, m)
	}
}

// badAnswer ends the request that a text answers, as far as that can be read: a bad answer is better than none.
func (d *duplex) badAnswer(text []byte, err error) {
	envelope, parseErr := mcp.ParseObject(text)
	if parseErr == nil && !envelope.Has("method") {
		d.waiting.resolve(mcp.ID(envelope.Value("id")), answer{err: err})
	}
}

// dispatch brings a message to whom it belongs. It never waits.
func (d *duplex) dispatch(ctx context.Context, m *mcp.Message) {
	switch {
	case m.IsResponse():
		if !d.waiting.resolve(m.ID, answer{message: m}) {
			d.up.Count(Foreign, 1)
		}
	case m.IsRequest():
		if answer := d.up.Question(m, nil); answer != nil {
			d.tellOut(ctx, answer)
		}
	case m.Method == mcp.NotifyCancelled && d.waiting.end(mcp.ID(m.Params.Value("requestId"))):
	default:
		d.deliver(m)
	}
}

// deliver brings a notification to whom it belongs.
func (d *duplex) deliver(m *mcp.Message) {
	id := owner(m)
	if m.Method == mcp.NotifyMessage && d.legacy.Load() {
		id = d.waiting.logging()
	}
	switch {
	case id == "":
		d.up.Notification(m)
	case !d.waiting.note(id, m):
		d.up.Count(Flooded, 1)
	}
}

// pending holds the requests that wait for an answer on a connection that all share.
type pending struct {
	mu      sync.Mutex // guards the fields below
	waiters map[mcp.ID]*waiter
	logs    mcp.ID // of the request that log messages belong to; "": there is none
}

// waiter is one request that waits. The reader of the connection never waits for it: what does not fit is dropped.
type waiter struct {
	notes  Notes
	hear   func(*mcp.Message) // takes notifications in place of notes, at once; nil: notes has them
	answer chan answer        // holds one
	modern bool               // its server may end it without an answer
}

// answer is how a request ended.
type answer struct {
	message *mcp.Message
	err     error
}

func newPending() pending { return pending{waiters: map[mcp.ID]*waiter{}} }

// add begins to wait for the answer to a request.
func (p *pending) add(out *Request) *waiter {
	w := &waiter{answer: make(chan answer, 1), modern: out.Header != nil}
	switch {
	case out.Hear != nil:
		w.hear = out.Hear
	case out.Notify != nil:
		w.notes = NewNotes()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters[out.ID] = w
	if out.Logs {
		p.logs = out.ID
	}
	return w
}

// remove ends the wait.
func (p *pending) remove(id mcp.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiters, id)
	if p.logs == id {
		p.logs = ""
	}
}

// logging returns the id of the request that log messages belong to, "" when there is none.
func (p *pending) logging() mcp.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs
}

// end ends a request without a result, as a modern server ends a subscription. It returns false for what is no request to
// such a server.
func (p *pending) end(id mcp.ID) bool {
	p.mu.Lock()
	w := p.waiters[id]
	p.mu.Unlock()
	return w != nil && w.modern && p.resolve(id, answer{err: ErrEnded})
}

// resolve gives an answer to who waits for it, once. It returns false when nobody does.
func (p *pending) resolve(id mcp.ID, a answer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.waiters[id]
	if ok {
		delete(p.waiters, id)
		w.answer <- a // has room: an id is resolved once
	}
	return ok
}

// only returns the id that waits when exactly one does.
func (p *pending) only() (mcp.ID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.waiters {
		return id, len(p.waiters) == 1
	}
	return "", false
}

// note gives a notification to the request with that id. It returns false when the request's place is full.
func (p *pending) note(id mcp.ID, m *mcp.Message) bool {
	p.mu.Lock()
	w := p.waiters[id]
	p.mu.Unlock()
	switch {
	case w != nil && w.hear != nil:
		w.hear(m)
		return true
	case w == nil || w.notes == nil:
		return true // nobody wants it
	}
	return w.notes.Keep(m)
}
