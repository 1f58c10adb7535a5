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
		return result(a.message)
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
