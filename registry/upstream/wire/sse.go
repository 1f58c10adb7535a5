package wire

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// Limits of HTTP+SSE.
const (
	maxEndpoint = 4 << 10                // bytes of the address to which messages are posted
	postGrace   = 100 * time.Millisecond // how long a POST may go on after its answer came over the stream
	// bytes of an event that is read, though its message is too large: a larger one ends
	// the session, because it may have no end
	maxEvent = 4 * maxMessage
)

// ErrEndpoint is the error for a server whose stream says that messages are to be posted
// elsewhere.
var ErrEndpoint = errors.New("endpoint is not an address on the origin of the url")

var errStreamDone = errors.New("event stream ended")

// SSE is HTTP+SSE: one event stream brings everything that the server says, and its first
// event says where messages are posted to. The stream is the session; it cannot be
// resumed. It is safe for concurrent use.
// https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
type SSE struct {
	duplex
	sender

	source     *url.URL    // the address of the stream
	base       http.Header // the headers of messages; shared: not modified
	background *background

	end    context.CancelFunc // ends the stream
	work   sync.WaitGroup     // the goroutine that reads it
	ready  chan struct{}      // closed when target is known
	target *url.URL           // where messages are posted; not changed once ready is closed
}

var _ Link = (*SSE)(nil)

// OpenSSE opens the stream and waits for the address of messages. ctx bounds the opening
// only; Close ends the stream.
func OpenSSE(ctx context.Context, at Site, up Events) (*SSE, error) {
	l := &SSE{
		duplex: newDuplex(up, reader{up.Count, at.Throttle, at.Turns}, at.Memory),
		sender: sender{at.Client, at.Credential}, source: at.URL, base: baseHeader(at),
		background: newBackground(up), ready: make(chan struct{}),
	}
	l.out, l.hurry = l, l.life.Done()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	l.end = end
	defer context.AfterFunc(ctx, end)() // deferred, so that ctx ends the opening but not the open stream
	resp, err := l.openStream(life)
	if err == nil {
		l.work.Go(func() { l.readAll(life, resp) })
		err = l.awaitEndpoint(ctx)
	}
	if err != nil {
		l.Close(ctx, false)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return l, nil
}

// openStream asks for the event stream.
func (l *SSE) openStream(ctx context.Context) (*response, error) {
	resp, sent, err := l.roundTrip(ctx, Caller{}, l.source, http.MethodGet, streamHeader(l.base), nil)
	switch {
	case err != nil:
		return nil, unavailable(sent, err)
	case resp.StatusCode != http.StatusOK:
		resp.discard()
		return nil, unavailable(true, refusedBy(resp))
	case resp.media != typeStream:
		resp.discard()
		return nil, protocol("no event stream at the url")
	}
	resp.Body = l.read.turns.Paced(ctx, resp.Body)
	return resp, nil
}

// awaitEndpoint waits until the server has said where messages are posted to.
func (l *SSE) awaitEndpoint(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.life.Done():
		if cause := l.Loss(); errors.Is(cause, ErrEndpoint) {
			return protocol("%w", cause)
		}
		return unavailable(true, l.Loss())
	}
}

// readAll takes all that the server says until the stream ends, and with it the
// connection. It is the goroutine in work.
func (l *SSE) readAll(ctx context.Context, resp *response) {
	defer resp.discard()
	l.lost(l.up.Saved(ctx, func() error { return l.receive(ctx, resp.Body) }))
}

// receive reads the stream to its end. Messages before the address are dropped, and a
// second address is ignored: otherwise a server could redirect messages at any time. A
// message that is too large ends no more than the call that it answers.
func (l *SSE) receive(ctx context.Context, body io.Reader) error {
	reserved := l.memory.reserve()
	defer reserved.Release()
	idle := padding{read: l.read, hurry: l.hurry}
	for event, err := range sse.ReadWithin(body, maxEvent, (*holder)(reserved).Hold, idle.add) {
		if errors.Is(err, sse.ErrTooLong) {
			l.missed(&lostError{err: ErrTooLarge})
			return ErrTooLarge
		}
		if err != nil {
			return err
		}
		data := bytes.TrimSpace(event.Data)
		switch {
		case event.Lost != nil:
			l.missed(&lostError{event.Lost, event.Data, event.End})
		case len(data) > maxMessage:
			l.missed(&lostError{ErrTooLarge, edge(nil, data), lastBytes(nil, data)})
		case event.Type == "endpoint" && l.target == nil:
			if l.target, err = endpoint(l.source, data); err != nil {
				return err
			}
			close(l.ready)
		case event.Type == "endpoint", l.target == nil && len(data) > 0:
			l.up.Count(Garbage, 1)
			idle.add(len(data))
		case len(data) > 0 && (event.Type == "" || event.Type == "message"):
			l.take(ctx, bytes.TrimSpace(owned(event.Data)))
		default:
			idle.add(len(data))
		}
	}
	return errStreamDone
}

// endpoint returns where messages are posted to. The address may be relative to that of
// the stream, and must be on its origin, because the operator's headers, which hold
// credentials, are sent there.
func endpoint(source *url.URL, data []byte) (*url.URL, error) {
	if len(data) == 0 || len(data) > maxEndpoint || bytes.ContainsAny(data, "\\\n\r\t ") {
		return nil, ErrEndpoint
	}
	target, err := source.Parse(string(data))
	if err != nil || target.Opaque != "" || target.User != nil || origin(target) != origin(source) {
		return nil, ErrEndpoint
	}
	target.Fragment, target.RawFragment = "", ""
	return target, nil
}

// origin returns scheme, host and port in one spelling, for comparison.
// https://datatracker.ietf.org/doc/html/rfc6454#section-4
func origin(u *url.URL) string {
	port := cmp.Or(u.Port(), dial.UsualPort(u.Scheme))
	return fmt.Sprintf("%s://%s:%s", u.Scheme, strings.ToLower(u.Hostname()), port)
}

// Exchange posts a request and waits for its answer on the stream. Some servers end the
// POST only after they have sent the answer, so both are waited for at the same time.
func (l *SSE) Exchange(ctx context.Context, out *Request) (mcp.Object, error) {
	w := l.waiting.add(out, l.memory)
	defer l.waiting.remove(w, out.ID)
	posting, cancel := context.WithCancel(ctx)
	defer cancel()
	posted := make(chan error, 1)
	var post sync.WaitGroup
	post.Go(func() {
		posted <- l.up.Saved(posting, func() error { return l.sendFor(posting, out.Caller, out.Body) })
	})
	result, err := l.await(ctx, out, w, posted)
	// The end of the response lets its connection be used again.
	defer time.AfterFunc(postGrace, cancel).Stop()
	post.Wait()
	return result, err
}

// Send posts one message.
func (l *SSE) Send(ctx context.Context, body []byte) error { return l.sendFor(ctx, Caller{}, body) }

// sendFor is Send on behalf of a caller.
func (l *SSE) sendFor(ctx context.Context, of Caller, body []byte) error {
	if cause := l.Loss(); cause != nil {
		return unavailable(false, cause)
	}
	return l.postMessage(ctx, of, l.target, l.base, body, func(resp *response) { resp.drain() })
}

// Tell posts a message in the background. When too many are on their way, the message is
// dropped and counted.
func (l *SSE) Tell(ctx context.Context, body []byte) { l.background.tell(ctx, body, l.Send) }

// Close ends the stream and with it the session; there is nothing else to tell the
// server.
func (l *SSE) Close(context.Context, bool) {
	l.lost(ErrGone)
	l.end()
	l.background.close()
	l.work.Wait()
}
