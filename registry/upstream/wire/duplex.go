package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// duplex is the common part of SSE and Child, the transports on which everything that the
// server says comes in one stream: it knows who waits for which answer, and when the
// connection is lost. One goroutine reads the stream (take); it never blocks on those who
// wait. It is safe for concurrent use.
type duplex struct {
	up      Events
	read    reader
	waiting pending
	memory  Memory
	// by which this side sends; set before reading begins
	out interface {
		Send(ctx context.Context, body []byte) error
		Tell(ctx context.Context, body []byte)
	}
	// closed when what is left is read without pauses; set before reading begins
	hurry <-chan struct{}

	legacy atomic.Bool // a legacy handshake was done

	life context.Context //nolint:containedctx // of the connection; why it was lost is the cause of its end
	// ends life, and wakes all who wait; only the first cause counts, since later ones
	// follow from it
	lost context.CancelCauseFunc
}

func newDuplex(up Events, read reader, memory Memory) duplex {
	life, lost := context.WithCancelCause(context.Background())
	return duplex{
		up: up, read: read, memory: memory, waiting: pending{waiters: map[mcp.ID]*waiter{}},
		life: life, lost: lost,
	}
}

// Loss returns why the connection is lost, nil while it is not. Before Close is called, a
// loss is the server's own doing.
func (d *duplex) Loss() error { return context.Cause(d.life) }

// Exchange sends a request and waits for its answer. SSE has a way of its own.
func (d *duplex) Exchange(ctx context.Context, out *Request) (mcp.Object, error) {
	w := d.waiting.add(out, d.memory)
	defer d.waiting.remove(w, out.ID)
	if err := d.out.Send(ctx, out.Body); err != nil {
		out.Unsent = true
		return mcp.Object{}, err
	}
	return d.await(ctx, out, w, nil)
}

// await waits for the answer to a request that is on its way. failed brings an error when
// the request did not get there; nil: that cannot happen. An answer that came just before
// the connection was lost, or the request failed, still counts.
func (d *duplex) await(ctx context.Context, out *Request, w *waiter,
	failed <-chan error,
) (mcp.Object, error) {
	for {
		select {
		case m := <-w.notes.Waiting():
			w.notes.Took(m)
			out.deliver(ctx, m)
		case a := <-w.answer:
			return d.finish(ctx, out, w, a)
		case err := <-failed:
			if err != nil {
				return d.finishOr(ctx, out, w, err)
			}
			failed = nil
		case <-ctx.Done():
			return mcp.Object{}, ctx.Err()
		case <-d.life.Done():
			return d.finishOr(ctx, out, w, unavailable(true, d.Loss()))
		}
	}
}

// finishOr is finish if the answer has come, and returns err otherwise.
func (d *duplex) finishOr(ctx context.Context, out *Request, w *waiter, err error) (mcp.Object, error) {
	select {
	case a := <-w.answer:
		return d.finish(ctx, out, w, a)
	default:
		return mcp.Object{}, err
	}
}

// finish delivers the notifications that came before the answer, so that their order is
// kept, and returns the answer.
func (d *duplex) finish(ctx context.Context, out *Request, w *waiter, a answer) (mcp.Object, error) {
	w.notes.Each(func(m *mcp.Message) { out.deliver(ctx, m) })
	return a.result, a.err
}

// Streams is false: all requests share one stream.
func (d *duplex) Streams() bool { return false }

// Begin completes a legacy handshake. The stream is the session, so nothing else changes.
// Such a server announces changes of its lists there, without being asked, so from now on
// the way for them is open.
func (d *duplex) Begin(ctx context.Context, _, _ string, completion []byte) error {
	d.legacy.Store(true)
	d.up.Following(true, false)
	return d.out.Send(ctx, completion)
}

// Follow waits for the loss of the connection. It reads nothing: what the server sends on
// its own comes in the one stream.
func (d *duplex) Follow(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-d.life.Done():
		return unavailable(true, d.Loss())
	}
}

// missed takes a message that could not be kept because of its size. Its caller learns it
// at once, and need not wait for the timeout. If the message does not show whom it
// answers, and exactly one request waits, it is taken for its answer.
func (d *duplex) missed(m *lostError) {
	var why error
	if errors.Is(m, ErrTooLarge) {
		why = unread(ErrTooLarge)
		d.up.Count(Oversized, 1)
	} else {
		// It was the share of the server, and not the caller's own, in which there was no
		// room.
		reason := share.ErrTotal
		if errors.Is(m, share.ErrNever) {
			reason = share.ErrNever
		}
		why = &MemoryError{fmt.Errorf("from this server: %w", reason)}
	}
	id := m.answers()
	if id == "" {
		var one bool
		if id, one = d.waiting.only(); !one {
			return
		}
	}
	d.waiting.resolve(id, answer{err: why}, 0)
}

// take takes one text that is not empty: a line, or the data of an event. Servers print
// all kinds of things; what is no message is counted and dropped. What is large is held
// by the server until it is known whom it answers, and from then on by that caller.
func (d *duplex) take(ctx context.Context, text []byte) {
	var one [1]*mcp.Message
	messages := d.messages(ctx, text, one[:0])
	if !holdAnswer(messages) {
		d.read.pace(d.hurry, len(text))
	}
	for _, m := range messages {
		d.dispatch(ctx, m, cap(text))
	}
}

// messages reads a text in its turn, and appends its messages to into, which is empty.
// There are none if it holds no message, or if the connection is being closed.
func (d *duplex) messages(ctx context.Context, text []byte, into []*mcp.Message) []*mcp.Message {
	if text[0] != '{' && text[0] != '[' {
		d.up.Count(Garbage, 1)
		return nil
	}
	release, err := d.read.turn(ctx, d.memory.Server, len(text))
	if err != nil {
		return nil
	}
	defer release()
	messages, err := d.read.messages(text, into)
	if err != nil {
		d.up.Count(Garbage, 1)
		d.badAnswer(text, err)
		return nil
	}
	return messages
}

// badAnswer ends the requests that an invalid text answers, as far as their ids can be
// read: an error now is better for the callers than a timeout later. A line of a log may
// have an id, too, but neither jsonrpc nor a result.
func (d *duplex) badAnswer(text []byte, err error) {
	raw, parseErr := mcp.ParseRaw(text)
	if parseErr != nil {
		return
	}
	envelopes, several := raw.Elements()
	if !several {
		envelopes = []mcp.RawJSON{raw}
	}
	for _, envelope := range envelopes {
		says := envelope.Member("jsonrpc") != nil || envelope.Member("result").IsObject()
		if says && envelope.Member("method") == nil {
			d.waiting.resolve(mcp.ID(envelope.Member("id")), answer{err: unread(err)}, 0)
		}
	}
}

// dispatch brings a message, which lies in a text of that many bytes, to whom it belongs.
// It never blocks.
func (d *duplex) dispatch(ctx context.Context, m *mcp.Message, size int) {
	switch {
	case m.IsResponse():
		object, err := result(m)
		if !d.waiting.resolve(m.ID, answer{object, err}, size) {
			d.up.Count(Foreign, 1)
		}
	case m.IsRequest():
		if answer := d.up.Question(m, nil); answer != nil {
			d.out.Tell(ctx, answer)
		}
	case m.Method == mcp.NotifyCancelled && d.waiting.end(mcp.ID(m.Params.Value("requestId"))):
	default:
		d.deliver(m)
	}
}

// deliver brings a notification to the request it belongs to, or to Events when it
// belongs to none. Log messages of a legacy server do not say whose they are; they go to
// the request with Logs set, if there is one.
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

// pending holds the requests that wait for an answer on one connection. It is safe for
// concurrent use.
type pending struct {
	mu      sync.Mutex // guards the fields below
	waiters map[mcp.ID]*waiter
	logs    mcp.ID // the request that log messages belong to; "": there is none
}

// waiter is one request that waits. The reader of the connection never blocks on it: what
// finds no room is dropped.
type waiter struct {
	notes    *Notes             // nil: it wants none, or hear takes them
	hear     func(*mcp.Message) // takes notifications at once, in place of notes; nil: notes does
	reserved *share.Reservation // holds its answer; nil: nothing is counted
	answer   chan answer        // has room for the one answer
	modern   bool               // a modern server may end it with a cancellation in place of an answer
}

// answer is what a message has answered, or why there is no answer.
type answer struct {
	result mcp.Object
	err    error
}

// unread returns the error for an answer that cannot be read.
func unread(err error) error { return protocol("read answer: %w", err) }

// add begins to wait for the answer to a request. It is called before the request is
// sent; remove ends the wait. What waits to be told is held by whoever holds the answer,
// otherwise by the server, from memory.
func (p *pending) add(out *Request, memory Memory) *waiter {
	w := &waiter{answer: make(chan answer, 1), modern: out.Header != nil, reserved: out.Memory}
	switch {
	case out.Hear != nil:
		w.hear = out.Hear
	case out.Notify != nil:
		reserved := out.Memory.Another()
		if out.Memory == nil {
			reserved = memory.reserve()
		}
		w.notes = NewNotes(reserved)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiters[out.ID] = w
	if out.Logs {
		p.logs = out.ID
	}
	return w
}

// remove ends the wait for a request, answered or not.
func (p *pending) remove(w *waiter, id mcp.ID) {
	w.notes.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiters, id)
	if p.logs == id {
		p.logs = ""
	}
}

// logging returns the id of the request that log messages belong to, "" when there is
// none.
func (p *pending) logging() mcp.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs
}

// find returns the request with that id that waits, nil if none does.
func (p *pending) find(id mcp.ID) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiters[id]
}

// end ends a request that a modern server has cancelled, as it does to end a
// subscription. It returns false when the id is of no request to a modern server.
func (p *pending) end(id mcp.ID) bool {
	w := p.find(id)
	return w != nil && w.modern && p.resolve(id, answer{err: unread(ErrEnded)}, 0)
}

// resolve gives a request its answer, once, in a text of that many bytes. The caller
// holds that from now on, or gets an error in its place if it has no room. resolve
// returns false when no request with that id waits.
func (p *pending) resolve(id mcp.ID, a answer, bytes int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.waiters[id]
	if !ok {
		return false
	}
	if err := (*holder)(w.reserved).Hold(bytes); err != nil {
		a = answer{err: err}
	}
	delete(p.waiters, id)
	w.answer <- a // never blocks: an id is resolved once, and there is room for one
	return true
}

// only returns the id of the request that waits, and true, if exactly one does.
func (p *pending) only() (mcp.ID, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.waiters {
		return id, len(p.waiters) == 1
	}
	return "", false
}

// note gives a notification to the request with that id. It returns false when the
// request has no room for it, and true when it was taken or nobody wants it.
func (p *pending) note(id mcp.ID, m *mcp.Message) bool {
	w := p.find(id)
	switch {
	case w != nil && w.hear != nil:
		w.hear(m)
		return true
	case w == nil || w.notes == nil:
		return true // nobody wants it
	}
	return w.notes.Keep(m)
}
