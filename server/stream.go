package server

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

const (
	// expiryLeeway is how long a stream may outlive the token that opened it, because
	// clocks may differ by that much.
	expiryLeeway = 30 * time.Second
	// retry is how long a client whose stream ended waits before it resumes. One whose
	// stream ends because the process stops waits for up to retrySpread longer, each for
	// another time.
	retry       = time.Second
	retrySpread = 2 * time.Second
	// keptBuffer is the largest buffer that an open stream keeps between two events, in
	// bytes.
	keptBuffer = 4 << 10
)

// streamPlace is one of the places for event streams, of the tenant and of the whole
// server. It was taken and must be given back.
type streamPlace struct {
	server    *Server
	closed    func()
	principal auth.Principal
	revoked   atomic.Bool          // its caller is not accepted any more, so the stream must end
	flow      atomic.Pointer[flow] // that has the place; nil: none has it yet
}

// Kinds of streams that are special: one answers a POST, and the other one's end is that
// of its session.
const (
	streamOfPost    = "post"
	streamOfSession = "sse"
)

// takeStreamPlace takes a place for a stream of one of these kinds: get, post, listen,
// sse.
func (s *Server) takeStreamPlace(x *exchange.Exchange, kind string) (*streamPlace, *exchange.Refusal) {
	if kind == streamOfSession && s.isDraining() {
		return nil, exchange.ErrDraining
	}
	switch err := s.streams.Take(share.User(x.Principal.User()), 1); {
	case errors.Is(err, share.ErrTotal):
		return nil, exchange.ErrStreams
	case err != nil:
		return nil, exchange.ErrStreamShare
	}
	closed, err := s.desk.OpenStream(x.Context(), x.Caller, kind)
	if err != nil {
		s.streams.Give(share.User(x.Principal.User()), 1)
		told := exchange.ErrorOf(err)
		return nil, &exchange.Refusal{Status: exchange.StatusOf(told.Code, x.Era), Told: told}
	}
	p := &streamPlace{server: s, closed: closed, principal: x.Principal}
	if kind == streamOfPost { // it ends with its request
		return p, nil
	}
	s.open.add(p)
	if x.IsOutdated() {
		p.leave()
		return nil, x.RefuseOutdated()
	}
	return p, nil
}

// takeLastingPlace takes a place for a stream that lasts for as long as its client wants.
// HTTP/1.0 cannot tell the end of such a stream from a broken connection.
func (s *Server) takeLastingPlace(x *exchange.Exchange, r *http.Request, kind string) (*streamPlace, *exchange.Refusal) {
	if !r.ProtoAtLeast(1, 1) {
		return nil, exchange.ErrHTTPVersion
	}
	return s.takeStreamPlace(x, kind)
}

// revoke makes the stream end. It is false if it was called before.
func (p *streamPlace) revoke() (first bool) {
	first = !p.revoked.Swap(true)
	if f := p.flow.Load(); f != nil {
		f.stir()
	}
	return first
}

// leave gives the place back.
func (p *streamPlace) leave() {
	p.server.open.remove(p)
	p.server.streams.Give(share.User(p.principal.User()), 1)
	p.closed()
}

// outlet takes the bytes of an event stream to the client.
type outlet interface {
	// Room tells whether an event of so many bytes may be sent now; the error is errFull.
	Room(size int) error
	WriteAll(data []byte) error
	Flush() error
}

var _ outlet = (*exchange.Exchange)(nil)

// stream is an open event stream to one client. One goroutine at a time uses it.
type stream struct {
	to     outlet
	buffer []byte
	last   time.Time // when something was sent
}

// openStream answers the request with an event stream.
func openStream(x *exchange.Exchange) (*stream, error) {
	h := x.Header()
	h.Set("Content-Type", exchange.StreamType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	x.AllowWrite()
	x.WriteHeader(http.StatusOK)
	return &stream{to: x, last: time.Now()}, x.Control.Flush()
}

// openTakeable does so for a stream that a flow takes over from net/http, if it can: the
// client is told that nothing follows it on the connection.
func openTakeable(x *exchange.Exchange, r *http.Request) (*stream, error) {
	if takeable(x, r) {
		x.Header().Set("Connection", "close")
	}
	return openStream(x)
}

// send writes one event. If the error is errFull, nothing was written; any other means
// that the client is gone or too slow.
func (o *stream) send(e sse.Event) error {
	if err := o.to.Room(len(e.Data)); err != nil {
		return err
	}
	if len(e.Data) > exchange.WriteSize && !bytes.ContainsAny(e.Data, "\r\n") {
		return o.sendLong(e, exchange.Payload{e.Data})
	}
	o.buffer = sse.Append(o.buffer[:0], e)
	return o.flush()
}

// sendMessage writes an event with a message, which is one line.
func (o *stream) sendMessage(message exchange.Payload) error {
	if len(message) == 1 {
		return o.send(sse.Event{Data: message[0]})
	}
	return o.sendLong(sse.Event{}, message)
}

// sendLong writes an event whose data is one long line, which it does not copy.
func (o *stream) sendLong(e sse.Event, line exchange.Payload) error {
	e.Data = []byte{}
	head, end := sse.Append(nil, e), []byte("\n\n") // of an empty line and of the event
	for _, part := range slices.Concat(exchange.Payload{head[:len(head)-len(end)]}, line, exchange.Payload{end}) {
		if err := o.to.WriteAll(part); err != nil {
			return err
		}
	}
	o.buffer, o.last = nil, time.Now()
	return o.to.Flush()
}

// comment writes a comment, so that no load balancer cuts the stream for being silent.
func (o *stream) comment() error {
	if err := o.to.Room(0); err != nil {
		return err
	}
	o.buffer = sse.AppendComment(o.buffer[:0], "")
	return o.flush()
}

func (o *stream) flush() error {
	if err := o.to.WriteAll(o.buffer); err != nil {
		return err
	}
	if cap(o.buffer) > keptBuffer {
		o.buffer = nil
	}
	o.last = time.Now()
	return o.to.Flush()
}

// endStream gives the client time to get the end of a stream that net/http writes.
func endStream(x *exchange.Exchange) { x.AllowWrite() }
