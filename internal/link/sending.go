package link

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime"
)

// Send gives a message to another replica, and returns what that says when it has handled
// it.
func (l *Link) Send(ctx context.Context, to string, m Message) ([]byte, error) {
	var body []byte
	for _, part := range m.Parts {
		body = appendText(body, part)
	}
	answer, err := l.Forward(ctx, to, Request{Target: m.Kind, Remote: m.Tenant, Body: body})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: it said %d to %q", ErrRefused, answer.StatusCode, m.Kind)
	}
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxMessage+1))
	if err == nil && len(said) > maxMessage {
		return nil, fmt.Errorf("%w: to %q it said more than %d bytes", ErrLost, m.Kind, maxMessage)
	}
	return said, err
}

// Ping returns an error if another replica does not answer. away tells that it does not
// reach what the Directory knows from.
func (l *Link) Ping(ctx context.Context, to string) (away bool, err error) {
	answer, err := l.Forward(ctx, to, Request{})
	if err != nil {
		return false, err
	}
	return answer.StatusCode == statusAway, answer.Body.Close()
}

// Request is a request of a client that is forwarded.
type Request struct {
	Method, Target string // the target is path and query
	Header         http.Header
	Body           []byte
	Remote, ID     string // the address of the client, and the id of the request in all records
	Note           string // what the replica says to the other about the request; "": nothing
}

// Statuses of answers beside those of HTTP.
const (
	// statusNone says that who asks is not known, or that the replica leaves: nothing was
	// done.
	statusNone = 0
	// statusAway answers a ping: the replica does not reach what the Directory knows
	// from.
	statusAway = 1
)

// Forward sends a request of a client to another replica, and returns its answer, whose
// body comes as that replica sends it. The caller closes the body, and does not read it
// then. When ctx ends, or that replica is gone, the exchange does. The other replica sees
// then that its client has left. The error is ErrUnreached or ErrLost, and so is that of
// reading the body.
//
// A request without a method is none of a client: its target is the kind of a message,
// and Remote the tenant; without that it is a ping.
func (l *Link) Forward(ctx context.Context, to string, f Request) (*http.Response, error) {
	peer, ok := l.config.Directory.Peer(to)
	if !ok {
		return nil, ErrUnreached
	}
	a := &answer{}
	a.life.Begin(ctx)
	a.life.DependOn(peer.Life, ErrLost)
	if sent, err := a.send(l.peers, to, &f); err != nil {
		a.life.Close()
		if sent {
			return nil, errors.Join(ErrLost, err)
		}
		return nil, errors.Join(ErrUnreached, err)
	}
	var text string
	header, err := readHead(a.exchange.In, &text)
	status, odd := strconv.Atoi(text)
	switch {
	case err != nil || odd != nil:
		return nil, errors.Join(ErrLost, a.ended(err), odd, a.Close())
	case status == statusNone:
		return nil, errors.Join(ErrUnreached, errUnknownPeer, a.Close())
	}
	return &http.Response{StatusCode: status, Header: header, Body: a}, nil
}

const (
	maxWith = 16 << 10 // bytes of a body that is sent with its head, and not after it
	maxKept = 32 << 10 // bytes of memory for requests that is used again
)

// requests has memory for requests while they are sent.
var requests = sync.Pool{New: func() any { return new([]byte) }}

// send sends the request. sent tells, beside an error, whether the other replica may have
// got it.
func (a *answer) send(peers *dial.Peers, to string, f *Request) (sent bool, err error) {
	memory := requests.Get().(*[]byte)
	request, body := appendHead((*memory)[:0], f.Header, f.Method, f.Target, f.Remote, f.ID, f.Note), f.Body
	request = binary.BigEndian.AppendUint32(request, uint32(len(body))) //nolint:gosec // of memory
	if len(body) <= maxWith {
		request, body = append(request, body...), nil
	}
	a.exchange, sent, err = peers.Send(&a.life, to, request, body)
	if *memory = request; cap(request) <= maxKept {
		requests.Put(memory)
	}
	return sent, err
}

// answer is the body of an answer.
type answer struct {
	life     lifetime.Context // of the exchange
	exchange dial.Exchange
	left     int  // bytes of the piece that is being read
	over     bool // the connection was given back
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	if a.left == 0 && !a.over {
		if err := a.next(); err != nil {
			return 0, a.ended(err)
		}
	}
	if a.over {
		return 0, io.EOF
	}
	n, err := a.exchange.In.Read(p[:min(len(p), a.left)])
	if a.left -= n; a.left == 0 && err == nil && a.exchange.In.Buffered() >= lengthSize {
		err = a.next() // the end of a short answer has come with it
	}
	if a.over {
		return n, io.EOF
	}
	return n, a.ended(err)
}

// next begins the next piece. An empty one is the end.
func (a *answer) next() (err error) {
	if a.left, err = readLength(a.exchange.In); err == nil && a.left == 0 {
		a.release(true)
	}
	return err
}

// ended returns the error for one of reading.
func (a *answer) ended(err error) error {
	switch {
	case err == nil:
		return nil
	case a.life.Err() != nil:
		err = a.life.Err() // which cut the connection
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(ErrLost, err)
}

// Close implements io.Closer. What is left of a short answer has come already: the
// connection is good for the next request then. For what has not come it does not wait,
// and a connection that was given back it leaves alone: the next request may have it.
func (a *answer) Close() error {
	var err error
	for in := a.exchange.In; err == nil && !a.over; {
		n, _ := in.Discard(min(a.left, in.Buffered())) // which cannot fail
		if a.left -= n; a.left > 0 || in.Buffered() < lengthSize {
			break
		}
		err = a.next()
	}
	a.release(false)
	a.life.Close()
	return nil
}

// release gives the connection back, once.
func (a *answer) release(whole bool) {
	if !a.over {
		a.over = true
		a.exchange.Release(whole)
	}
}
