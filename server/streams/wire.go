package streams

import (
	"bytes"
	"cmp"
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// While a stream is idle, net/http keeps 9 KiB of buffers for it and the stack of a
// goroutine that once ran the whole chain, 10 KiB more, besides the request and its
// context. So a flow takes the connection over as soon as it has nothing to send:
//
//	net/http: accept ─▶ request ─▶ chain ─▶ head of the answer, events that are there ─▶ Hijack
//	                                                                                       │
//	 wire:   one goroutine waits in Read ◀─────────────────────────────────────────────────┤
//	            │ the client is gone: wakes the flow                                       ▼
//	            ▼                                                       workers write chunks when the flow is woken
//	         the end of the stream ─▶ last chunk ─▶ close, which gives back the place at the listener
//
// What net/http and the chain did when the request ended is done when the stream ends:
// the line of the log and the metric of the request (LogEntry), the slot of the stream
// (flow.close), and what a stop waits for (Set.EndTaken). The client was told with
// "Connection: close" that nothing follows the stream, so the connection never goes back
// to net/http.

// maxAfterwards is how many bytes a client may send after its request. They are no
// request any more, because the answer said that the connection closes, so they are read
// and dropped. Whoever sends more is cut off.
// https://www.rfc-editor.org/rfc/rfc9112#section-9.6
const maxAfterwards = 64 << 10

// closeTime is how long a client may take to close the connection after the end of its
// stream. Were it closed at once, what the client has sent and nobody has read would make
// the kernel reset the connection, and the client could lose the end of the stream.
const closeTime = 500 * time.Millisecond

// wire is a connection that was taken over from net/http, and writes an event stream in
// the chunks of HTTP/1.1. One goroutine at a time writes.
type wire struct {
	conn   net.Conn
	raw    syscall.RawConn // nil: the connection cannot be written to without waiting
	turns  *fairqueue.Queue
	waits  bool   // the goroutine that writes is the flow's own, so it may wait for the client
	unsent []byte // what the client has yet to take of chunks that were begun; empty while waits is true
	read   [readSize]byte
}

// readSize is how much of what a client sends after its request is read at once, in
// bytes. Clients send nothing.
const readSize = 32

var _ outlet = (*wire)(nil)

// take takes the connection over. It is false if that cannot be done, and changes nothing
// then.
func (f *Flow) take(x *exchange.Exchange) bool {
	if !f.canTake(x) {
		return false
	}
	// before that: a stop that looked in between, when net/http has given the connection
	// up and nobody else counts it yet, would go on without its stream
	f.set.countTaken(2) // the connection, and the goroutine that reads from it
	conn, ahead, err := x.Control.Hijack()
	if err != nil {
		f.set.countTaken(-2)
		return false
	}
	x.Taken = true
	f.holdTaken(conn, x)
	if one, ok := conn.(syscall.Conn); ok {
		// without it, each event is written by a goroutine of the flow's own
		f.wire.raw, _ = one.SyscallConn()
	}
	f.set.take(f)
	// until the connection is closed; EndTaken waits for it
	go f.listen(maxAfterwards - ahead.Reader.Buffered())
	if !f.set.settle(f) {
		f.set.requeue(f)
	}
	return true
}

// holdTaken sets what a flow has in place of net/http's request. It is made in one piece:
// many small objects that stay, each among the garbage of a request, would keep blocks of
// memory that are nearly empty.
func (f *Flow) holdTaken(conn net.Conn, x *exchange.Exchange) {
	parts := &struct {
		wire  wire
		out   Stream
		entry exchange.LogEntry
	}{
		wire:  wire{conn: conn, turns: f.set.config.Turns},
		out:   Stream{last: f.out.last},
		entry: exchange.EntryOf(x),
	}
	parts.out.to = &parts.wire
	f.wire, f.out, f.entry = &parts.wire, &parts.out, &parts.entry
}

// canTake tells whether the connection of the request can be taken over: not that of a
// POST, the link of replicas, nor a recorder of a test.
func (f *Flow) canTake(x *exchange.Exchange) bool {
	_, ok := x.ResponseWriter.(http.Hijacker)
	return ok && f.Lasts()
}

// listen waits until the client is gone, and drops what it sends until then. It is the
// one goroutine of an idle stream, so it must not call anything that needs much of a
// stack before it has read.
func (f *Flow) listen(allowed int) {
	for allowed >= 0 {
		n, err := f.wire.conn.Read(f.wire.read[:])
		if err != nil {
			break
		}
		allowed -= n
	}
	_ = f.wire.conn.Close() // a write that waits for the client ends with that
	f.gone.Store(true)
	f.Wake()
	f.set.countTaken(-1)
}

// CanTake implements outlet.
func (w *wire) CanTake(size int) error {
	if !w.waits && (w.lags() || w.raw == nil || size > exchange.WriteSize) {
		return errFull
	}
	return nil
}

// lags tells whether the client has yet to take something.
func (w *wire) lags() bool { return len(w.unsent) > 0 }

// WriteAll implements outlet. Each chunk that may be waited for has a deadline, and goes
// at the pace of what is large.
func (w *wire) WriteAll(data []byte) error { return exchange.InPieces(w.turns, data, w.writeChunk) }

// Flush implements outlet: nothing is kept back.
func (w *wire) Flush() error { return nil }

// writeChunk writes one chunk, or keeps for sendUnsent what the client does not take of
// it at once.
func (w *wire) writeChunk(data []byte) error {
	return inBuffer(func(to []byte) []byte { return appendChunk(to, data) }, w.writeFramed)
}

// writeFramed is writeChunk for one that has its frame.
func (w *wire) writeFramed(framed []byte) error {
	if w.waits {
		return w.writeInTime(framed)
	}
	if w.lags() { // the chunk before is not whole yet: an event may take several
		w.unsent = append(w.unsent, framed...)
		return nil
	}
	n, err := w.attempt(framed)
	if err == nil && n < len(framed) {
		w.unsent = bytes.Clone(framed[n:])
	}
	return err
}

// attempt writes as much as the client takes without being waited for.
func (w *wire) attempt(data []byte) (n int, err error) {
	if w.raw == nil {
		return 0, nil
	}
	closed := w.raw.Write(func(fd uintptr) (done bool) {
		n, err = writeNow(fd, data)
		return true
	})
	return n, cmp.Or(closed, err)
}

// sendUnsent writes what write left over.
func (w *wire) sendUnsent() error {
	unsent := w.unsent
	w.unsent = nil
	return w.writeInTime(unsent)
}

// writeInTime writes bytes and waits for the client, as long as any answer does for one
// write.
func (w *wire) writeInTime(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	_ = w.conn.SetWriteDeadline(time.Now().Add(exchange.WriteTimeout)) // if that fails, so does the write
	defer func() { _ = w.conn.SetWriteDeadline(time.Time{}) }()        // or it would end a later attempt
	_, err := w.conn.Write(data)
	return err
}

// appendChunk appends data as one chunk of HTTP/1.1.
// https://www.rfc-editor.org/rfc/rfc9112#section-7.1
func appendChunk(to, data []byte) []byte {
	to = slices.Grow(to, len(data)+len("40000\r\n\r\n"))
	to = strconv.AppendInt(to, int64(len(data)), 16)
	to = append(to, "\r\n"...)
	to = append(to, data...)
	return append(to, "\r\n"...)
}

// lastChunk ends an answer.
const lastChunk = "0\r\n\r\n"

// finish ends a flow that has taken its connection over. err says why; a stream that
// ended properly gets its last chunk. Everything has been given back when the client sees
// that.
func (f *Flow) finish(err error) {
	f.settleRequest()
	if !errors.Is(err, ErrEnded) {
		f.hangUp(false)
		return
	}
	n, err := f.wire.attempt([]byte(lastChunk))
	if err == nil && n < len(lastChunk) {
		go func() { // for the time of one write; EndTaken waits for it
			f.hangUp(f.wire.writeInTime([]byte(lastChunk)[n:]) == nil)
		}()
		return
	}
	f.hangUp(err == nil)
}

// settleRequest gives back what the stream has, and writes the line of its request.
func (f *Flow) settleRequest() {
	var err error
	defer f.recovered(&err)
	ctx, outcome := f.entry.Context(), exchange.OutcomeOK
	if f.close(ctx) {
		outcome = exchange.OutcomeRevoked
	}
	f.set.config.Exchanges.LogStream(ctx, f.entry, outcome)
}

// hangUp closes the connection, which also ends the goroutine that reads. A client that
// got the end of its stream may close first.
func (f *Flow) hangUp(whole bool) {
	half, ok := f.wire.conn.(interface{ CloseWrite() error })
	if whole && ok && half.CloseWrite() == nil {
		_ = f.wire.conn.SetReadDeadline(time.Now().Add(closeTime)) // if that fails, so does the read
	} else {
		_ = f.wire.conn.Close() // the client may have closed it
	}
	f.set.remove(f)
	f.set.countTaken(-1)
}
