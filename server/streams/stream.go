package streams

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

const (
	// expiryLeeway is how long a stream may outlive the token that opened it, because
	// clocks may differ by that much.
	expiryLeeway = 30 * time.Second
	// Retry is how long a client at least waits, before it resumes, whose stream ends
	// because the process stops. Each waits for up to RetryJitter longer, for another
	// time. After any other end clients wait for as long as they do by themselves.
	Retry = time.Second
	// RetryJitter is by how much that differs at a stop.
	RetryJitter = 2 * time.Second
	// retainedBuffer is the largest buffer that is kept for further events, in bytes.
	retainedBuffer = 4 << 10
)

// outlet takes the bytes of an event stream to the client.
type outlet interface {
	// CanTake tells whether an event of so many bytes may be sent now; the error is
	// errFull.
	CanTake(size int) error
	WriteAll(data []byte) error
	Flush() error
}

var _ outlet = (*exchange.Exchange)(nil)

// Stream is an open event stream to one client. One goroutine at a time uses it.
type Stream struct {
	to   outlet
	last time.Time // when something was sent
}

// Open answers the request with an event stream.
func Open(x *exchange.Exchange) (*Stream, error) {
	maps.Copy(x.Header(), http.Header{
		"Content-Type": {exchange.StreamType}, "Cache-Control": {"no-store"}, "X-Accel-Buffering": {"no"},
	})
	x.AllowWrite()
	x.WriteHeader(http.StatusOK)
	return &Stream{to: x, last: time.Now()}, x.Control.Flush()
}

// Send writes one event. If the error is errFull, nothing was written; any other means
// that the client is gone or too slow.
func (o *Stream) Send(e sse.Event) error {
	if err := o.CanTake(len(e.Data)); err != nil {
		return err
	}
	if len(e.Data) > exchange.WriteSize && !bytes.ContainsAny(e.Data, "\r\n") {
		return o.sendLong(e, exchange.Payload{e.Data})
	}
	return o.send(func(to []byte) []byte { return sse.Append(to, e) })
}

// CanTake tells whether an event of so many bytes may be sent now; the error is errFull.
func (o *Stream) CanTake(size int) error { return o.to.CanTake(size) }

// SendMessage writes an event with a message, which is one line.
func (o *Stream) SendMessage(message exchange.Payload) error {
	if len(message) == 1 {
		return o.Send(sse.Event{Data: message[0]})
	}
	return o.sendLong(sse.Event{}, message)
}

// sendLong writes an event whose data is one long line, which it does not copy.
func (o *Stream) sendLong(e sse.Event, line exchange.Payload) error {
	e.Data = []byte{}
	head, end := sse.Append(nil, e), []byte("\n\n") // of an empty line and of the event
	for _, part := range slices.Concat(exchange.Payload{head[:len(head)-len(end)]}, line,
		exchange.Payload{end}) {
		if err := o.to.WriteAll(part); err != nil {
			return err
		}
	}
	return o.sent()
}

// Comment writes a comment, so that no load balancer cuts the stream for being silent.
func (o *Stream) Comment() error {
	if err := o.CanTake(0); err != nil {
		return err
	}
	return o.send(func(to []byte) []byte { return sse.AppendComment(to, "") })
}

// send writes what fill appends.
func (o *Stream) send(fill func(to []byte) []byte) error {
	if err := inBuffer(fill, o.to.WriteAll); err != nil {
		return err
	}
	return o.sent()
}

// sent notes that something was written, which the client gets now.
func (o *Stream) sent() error {
	o.last = time.Now()
	return o.to.Flush()
}

// scratch keeps buffers of retainedBuffer bytes at most, for events and chunks that are
// being written: an idle stream has none.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// inBuffer calls use with what fill appends to a buffer.
func inBuffer(fill func(to []byte) []byte, use func(data []byte) error) error {
	buffer := scratch.Get().(*[]byte)
	defer scratch.Put(buffer)
	data := fill((*buffer)[:0])
	if cap(data) <= retainedBuffer {
		*buffer = data
	}
	return use(data)
}
