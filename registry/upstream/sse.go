package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
)

// Limits of HTTP+SSE.
const (
	maxEndpoint = 4 << 10                // bytes of the address for messages
	postGrace   = 100 * time.Millisecond // that a POST may go on after its answer came over the stream
)

var (
	errEndpoint   = errors.New("endpoint is not an address on the origin of the url")
	errStreamDone = errors.New("event stream ended")
)

// sseLink is HTTP+SSE: one event stream brings everything that the server says, and its first event tells where
// messages are posted to. The session is the stream; it cannot be resumed. It is safe for concurrent use.
// https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse
type sseLink struct {
	duplex
	client http.RoundTripper // and not the client around it: no redirects, no cookies
	source *url.URL          // of the stream
	base   http.Header       // of messages; shared
	asides *asides

	end    context.CancelFunc // ends the stream
	work   sync.WaitGroup     // the goroutine that reads it
	ready  chan struct{}      // closed when target is known
	target *url.URL           // where messages go
}

// openSSE opens the stream and waits for the address. ctx bounds the opening only; close ends the stream.
func openSSE(ctx context.Context, c *connection, cfg Config) (*sseLink, error) {
	source, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, c.server.unavailable(false, errors.New("url cannot be parsed"))
	}
	l := &sseLink{
		duplex: newDuplex(c), client: cfg.Client.Transport, source: source, base: baseHeader(cfg), asides: newAsides(),
		ready: make(chan struct{}),
	}
	l.tellOut = l.tell
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	l.end = end
	defer context.AfterFunc(ctx, end)() // the opening ends with ctx, the stream does not
	resp, err := l.openStream(life)
	if err == nil {
		l.work.Go(func() { l.listen(life, resp) })
		err = l.awaitEndpoint(ctx)
	}
	if err != nil {
		l.close(ctx, false)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return l, nil
}

func (l *sseLink) openStream(ctx context.Context) (*http.Response, error) {
	resp, sent, err := roundTrip(ctx, l.client, l.source, http.MethodGet, streamHeader(l.base), nil)
	switch {
	case err != nil:
		return nil, l.conn.server.unavailable(sent, err)
	case resp.StatusCode != http.StatusOK:
		discard(resp)
		return nil, l.conn.server.unavailable(true, &statusError{resp.StatusCode})
	case mediaType(resp.Header) != typeStream:
		discard(resp)
		return nil, l.conn.server.protocol("no event stream at the url")
	}
	return resp, nil
}

func (l *sseLink) awaitEndpoint(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.gone:
		if errors.Is(l.cause, errEndpoint) {
			return l.conn.server.protocol("%w", l.cause)
		}
		return l.conn.server.unavailable(true, l.cause)
	}
}

// listen takes all that the server says until the stream ends, and with it the connection.
func (l *sseLink) listen(ctx context.Context, resp *http.Response) {
	defer discard(resp)
	l.lost(l.receive(ctx, resp.Body))
}

// receive reads the stream. Nothing counts before the address is known, and nothing changes it afterwards.
func (l *sseLink) receive(ctx context.Context, body io.Reader) error {
	for event, err := range sse.Read(body, maxMessage) {
		if errors.Is(err, sse.ErrTooLong) {
			l.oversized()
			return errTooLarge
		}
		if err != nil {
			return err
		}
		data := bytes.TrimSpace(event.Data)
		switch {
		case event.Type == "endpoint" && l.target == nil:
			if l.target, err = endpoint(l.source, data); err != nil {
				return err
			}
			close(l.ready)
		case event.Type == "endpoint", l.target == nil && len(data) > 0:
			l.conn.count(Garbage, 1)
		case len(data) > 0 && (event.Type == "" || event.Type == "message"):
			l.take(ctx, bytes.Clone(data))
		}
	}
	return errStreamDone
}

// endpoint returns where messages go. The address may be relative to that of the stream and must be on its origin: the
// operator's headers, which hold credentials, go there.
func endpoint(source *url.URL, data []byte) (*url.URL, error) {
	if len(data) == 0 || len(data) > maxEndpoint || bytes.ContainsAny(data, "\\\n\r\t ") {
		return nil, errEndpoint
	}
	target, err := source.Parse(string(data))
	if err != nil || target.Opaque != "" || target.User != nil || origin(target) != origin(source) {
		return nil, errEndpoint
	}
	target.Fragment, target.RawFragment = "", ""
	return target, nil
}

// origin is scheme, host and port in one spelling.
// https://datatracker.ietf.org/doc/html/rfc6454#section-4
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return fmt.Sprintf("%s://%s:%s", u.Scheme, strings.ToLower(u.Hostname()), port)
}

func (l *sseLink) streams() bool { return false }

// begin is told of handshakes. Such a server tells changes of its list without being asked.
func (l *sseLink) begin(string, string) { l.conn.told.Store(true) }

// exchange posts a request and waits for its answer on the stream. A server may accept the message only after it has
// answered it, so both are waited for at once.
func (l *sseLink) exchange(ctx context.Context, out *outgoing) (mcp.Object, error) {
	w := l.waiting.add(out)
	defer l.waiting.remove(out.id)
	posting, cancel := context.WithCancel(ctx)
	defer cancel()
	posted := make(chan error, 1)
	var post sync.WaitGroup
	post.Go(func() { posted <- l.send(posting, out.body) })
	result, err := l.await(ctx, out, w, posted)
	// The end of the response lets its connection be used again.
	defer time.AfterFunc(postGrace, cancel).Stop()
	post.Wait()
	return result, err
}

// send posts one message. Any status of success accepts it; what the response holds besides means nothing.
func (l *sseLink) send(ctx context.Context, body []byte) error {
	select {
	case <-l.gone:
		return l.conn.server.unavailable(false, l.cause)
	default:
	}
	resp, sent, err := roundTrip(ctx, l.client, l.target, http.MethodPost, l.base, body)
	if err != nil {
		return l.conn.server.unavailable(sent, err)
	}
	defer discard(resp)
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		defer time.AfterFunc(drainLimit, func() { discard(resp) }).Stop()
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxRefusal)) // only the end matters
		return nil
	}
	cause := &statusError{resp.StatusCode}
	if resp.StatusCode < 400 {
		return l.conn.server.protocol("%w", cause)
	}
	return l.conn.server.unavailable(resp.StatusCode >= 500, cause)
}

func (l *sseLink) tell(ctx context.Context, body []byte) {
	if !l.asides.run(ctx, func(ctx context.Context) { _ = l.send(ctx, body) }) { // nobody waits for it
		l.conn.count(Flooded, 1)
	}
}

// close ends the stream, and with it the session.
func (l *sseLink) close(context.Context, bool) {
	l.lost(errGone)
	l.end()
	l.asides.close()
	l.work.Wait()
}
