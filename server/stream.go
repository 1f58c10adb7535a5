package server

import (
	"bytes"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

const (
	// expiryLeeway is how long a stream may outlive the token that opened it, because clocks may differ by that much.
	expiryLeeway = 30 * time.Second
	// retry is how long a client whose stream ended waits before it resumes.
	retry = time.Second
	// keptBuffer is the largest buffer that an open stream keeps between two events, in bytes.
	keptBuffer = 4 << 10
)

// streamPlace is one of the places for event streams, of the tenant and of the whole server. It was taken and must be
// given back.
type streamPlace struct {
	server    *Server
	closed    func()
	principal auth.Principal
	revoked   chan struct{} // closed when its caller is not accepted any more and the stream must end
	once      sync.Once     // closes revoked
}

// streamOfPost is the kind of stream that answers a POST.
const streamOfPost = "post"

// takeStreamPlace takes a place for a stream of one of these kinds: get, post, listen, sse.
func (s *Server) takeStreamPlace(x *exchange, kind string) (*streamPlace, *refusal) {
	select {
	case <-s.draining:
		if kind != streamOfPost { // a call that is being answered may still need a stream
			return nil, errDraining
		}
	default:
	}
	switch err := s.streams.Take(share.User(x.principal.User()), 1); {
	case errors.Is(err, share.ErrTotal):
		return nil, errStreams
	case err != nil:
		return nil, errStreamShare
	}
	closed, err := s.places.OpenStream(x.caller, kind)
	if err != nil {
		s.streams.Give(share.User(x.principal.User()), 1)
		told := toldOf(err)
		return nil, &refusal{statusOf(told.Code, x.era), told}
	}
	p := &streamPlace{server: s, closed: closed, principal: x.principal, revoked: make(chan struct{})}
	if kind == streamOfPost { // it ends with its request
		return p, nil
	}
	s.open.add(p)
	if x.isOutdated() {
		p.leave()
		return nil, x.refuseOutdated()
	}
	return p, nil
}

// revoke makes the stream end. It is false if it was called before.
func (p *streamPlace) revoke() (first bool) {
	p.once.Do(func() {
		close(p.revoked)
		first = true
	})
	return first
}

// leave gives the place back.
func (p *streamPlace) leave() {
	p.server.open.remove(p)
	p.server.streams.Give(share.User(p.principal.User()), 1)
	p.closed()
}

// stream is an open event stream to one client, and the one place that knows how bytes reach it. One goroutine at a
// time uses it.
type stream struct {
	x      *exchange
	buffer []byte
}

// openStream answers the request with an event stream.
func openStream(x *exchange) (*stream, error) {
	h := x.Header()
	h.Set("Content-Type", streamType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	x.allowWrite()
	x.WriteHeader(http.StatusOK)
	return &stream{x: x}, x.control.Flush()
}

// send writes one event. An error means that the client is gone or too slow.
func (o *stream) send(e sse.Event) error {
	if len(e.Data) > writeSize && !bytes.ContainsAny(e.Data, "\r\n") {
		return o.sendLong(e, payload{e.Data})
	}
	o.buffer = sse.Append(o.buffer[:0], e)
	return o.flush()
}

// sendMessage writes an event with a message, which is one line.
func (o *stream) sendMessage(message payload) error {
	if len(message) == 1 {
		return o.send(sse.Event{Data: message[0]})
	}
	return o.sendLong(sse.Event{}, message)
}

// sendLong writes an event whose data is one long line, which it does not copy.
func (o *stream) sendLong(e sse.Event, line payload) error {
	e.Data = []byte{}
	head, end := sse.Append(nil, e), []byte("\n\n") // of an empty line and of the event
	for _, part := range slices.Concat(payload{head[:len(head)-len(end)]}, line, payload{end}) {
		if err := o.x.writeAll(part); err != nil {
			return err
		}
	}
	o.buffer = nil
	return o.x.control.Flush()
}

// comment writes a comment, so that no load balancer cuts the stream for being silent.
func (o *stream) comment() error {
	o.buffer = sse.AppendComment(o.buffer[:0], "")
	return o.flush()
}

func (o *stream) flush() error {
	if err := o.x.writeAll(o.buffer); err != nil {
		return err
	}
	if cap(o.buffer) > keptBuffer {
		o.buffer = nil
	}
	return o.x.control.Flush()
}

// close gives the client time to get the end of the stream.
func (o *stream) close() { o.x.allowWrite() }
