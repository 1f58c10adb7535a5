package streams

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

const (
	// expiryLeeway is how long a stream may outlive the token that opened it, because
	// clocks may differ by that much.
	expiryLeeway = 30 * time.Second
	// Retry is how long a client whose stream ended waits before it resumes. One whose
	// stream ends because the process stops waits for up to RetryJitter longer, each for
	// another time.
	Retry = time.Second
	// RetryJitter is by how much that differs at a stop.
	RetryJitter = 2 * time.Second
	// retainedBuffer is the largest buffer that an open stream keeps between two events,
	// in bytes.
	retainedBuffer = 4 << 10
)

// outlet takes the bytes of an event stream to the client.
type outlet interface {
	// CanTake tells whether an event of so many bytes may be sent now; the error is errFull.
	CanTake(size int) error
	WriteAll(data []byte) error
	Flush() error
}

var _ outlet = (*exchange.Exchange)(nil)

// Stream is an open event stream to one client. One goroutine at a time uses it.
type Stream struct {
	to     outlet
	buffer []byte
	last   time.Time // when something was sent
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

// OpenLasting does so for a stream that a flow takes over from net/http, if it can: the
// client is told that nothing follows it on the connection.
func OpenLasting(x *exchange.Exchange) (*Stream, error) {
	if takeable(x) {
		x.Header().Set("Connection", "close")
	}
	return Open(x)
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
	o.buffer = sse.Append(o.buffer[:0], e)
	return o.flush()
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
	o.buffer, o.last = nil, time.Now()
	return o.to.Flush()
}

// Comment writes a comment, so that no load balancer cuts the stream for being silent.
func (o *Stream) Comment() error {
	if err := o.CanTake(0); err != nil {
		return err
	}
	o.buffer = sse.AppendComment(o.buffer[:0], "")
	return o.flush()
}

func (o *Stream) flush() error {
	if err := o.to.WriteAll(o.buffer); err != nil {
		return err
	}
	if cap(o.buffer) > retainedBuffer {
		o.buffer = nil
	}
	o.last = time.Now()
	return o.to.Flush()
}
