package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Limits of messages and of HTTP.
const (
	maxMessage   = 16 << 20 // bytes of one message, after any decoding
	maxRefusal   = 64 << 10 // bytes read of an answer that is a refusal
	maxSessionID = 1024     // bytes
	drainLimit   = 20 * time.Millisecond
	asideLimit   = 2 * time.Second // for one message in the background
	asideMax     = 32              // messages in the background at once
)

// httpLink is Streamable HTTP, under either era. It is safe for concurrent use.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
type httpLink struct {
	conn   *connection
	client http.RoundTripper // and not the client around it: no redirects, no cookies
	target *url.URL
	base   http.Header // of every request; shared
	state  atomic.Pointer[session]
	read   reader
	calls  underway
	asides *asides
	hasty  atomic.Bool // this server holds streams open after the answer, so nobody waits for their end
}

// session is what a legacy handshake agreed on. It is immutable.
type session struct {
	id       string
	revision string
	post     http.Header // of messages
	get      http.Header // of streams
}

func newHTTPLink(c *connection, cfg Config) (*httpLink, error) {
	target, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, c.server.unavailable(false, errors.New("url cannot be parsed"))
	}
	return &httpLink{
		conn: c, client: cfg.Client.Transport, target: target, base: baseHeader(cfg),
		read: reader{c.count}, asides: newAsides(),
	}, nil
}

// baseHeader makes the headers of messages: the operator's and our own.
func baseHeader(cfg Config) http.Header {
	base := http.Header{}
	for name, value := range cfg.Headers {
		base.Set(name, value)
	}
	base.Set("Content-Type", "application/json")
	base.Set("Accept", "application/json, text/event-stream")
	base.Set("User-Agent", "drawbridge/"+cfg.Version)
	for _, name := range []string{mcp.HeaderSessionID, mcp.HeaderProtocolVersion, mcp.HeaderMethod, mcp.HeaderName, mcp.HeaderLastEventID} {
		base.Del(name)
	}
	return base
}

// streamHeader makes the headers of streams out of those of messages.
func streamHeader(post http.Header) http.Header {
	get := post.Clone()
	get.Del("Content-Type")
	get.Set("Accept", "text/event-stream")
	return get
}

func (l *httpLink) current() *session { return l.state.Load() }

// begin makes the headers of all later requests. The revision is told where it is asked for, which is since 2025-06-18.
func (l *httpLink) begin(sessionID, revision string) {
	s := &session{id: sessionID, revision: revision, post: l.base.Clone()}
	if sessionID != "" {
		s.post.Set(mcp.HeaderSessionID, sessionID)
	}
	if revision >= mcp.Revision2506 {
		s.post.Set(mcp.HeaderProtocolVersion, revision)
	}
	s.get = streamHeader(s.post)
	l.state.Store(s)
}

func (l *httpLink) streams() bool { return true }

func (l *httpLink) do(ctx context.Context, method string, header http.Header, body []byte) (resp *http.Response, sent bool, err error) {
	return roundTrip(ctx, l.client, l.target, method, header, body)
}

// roundTrip sends one HTTP request. sent tells whether the server may have received it.
func roundTrip(
	ctx context.Context, client http.RoundTripper, target *url.URL, method string, header http.Header, body []byte,
) (resp *http.Response, sent bool, err error) {
	var written atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { written.Store(true) }}
	req := (&http.Request{
		Method: method, URL: target, Host: target.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(httptrace.WithClientTrace(ctx, trace))
	if body != nil {
		req.ContentLength = int64(len(body))
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	resp, err = client.RoundTrip(req)
	return resp, written.Load(), err
}

// exchange posts a request and reads its answer from the response: a JSON body or an event stream.
func (l *httpLink) exchange(ctx context.Context, out *outgoing) (mcp.Object, error) {
	header, s := out.header, (*session)(nil)
	if header == nil {
		header = l.base
		if s = l.state.Load(); s != nil && out.method != mcp.MethodInitialize {
			header = s.post
		}
		defer l.calls.add(ctx, out)()
	}
	resp, sent, err := l.do(ctx, http.MethodPost, header, out.body)
	if err != nil {
		return mcp.Object{}, l.conn.server.unavailable(sent, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer discard(resp)
		return mcp.Object{}, l.refused(out, s, resp)
	}
	if out.method == mcp.MethodInitialize {
		if out.sessionID = resp.Header.Get(mcp.HeaderSessionID); !validSessionID(out.sessionID) {
			discard(resp)
			return mcp.Object{}, l.conn.server.protocol("session id is no visible ASCII of bounded length")
		}
	}
	switch mediaType(resp.Header) {
	case typeJSON:
		defer discard(resp)
		return l.readJSON(ctx, out, resp)
	case typeStream:
		return l.readStreams(ctx, out, s, resp)
	case typeUnknown:
	}
	discard(resp)
	return mcp.Object{}, l.conn.server.protocol("answer of an unknown media type")
}

// validSessionID tells whether id may be sent in a header; "" is no session.
func validSessionID(id string) bool {
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7E {
			return false
		}
	}
	return len(id) <= maxSessionID
}

// readJSON reads the answer from a JSON body: one message, or in 2025-03-26 several.
func (l *httpLink) readJSON(ctx context.Context, out *outgoing, resp *http.Response) (mcp.Object, error) {
	body, err := readBody(resp, maxMessage)
	if errors.Is(err, errTooLarge) {
		l.conn.count(Oversized, 1)
		return mcp.Object{}, l.conn.server.protocol("%w", err)
	}
	if err != nil {
		return mcp.Object{}, l.conn.server.unavailable(true, err)
	}
	messages, err := l.read.messages(body)
	if err != nil {
		return mcp.Object{}, l.conn.server.protocol("read answer: %w", err)
	}
	for _, m := range messages {
		if answer := l.receive(ctx, out, m); answer != nil {
			return result(answer)
		}
	}
	return mcp.Object{}, l.conn.server.protocol("no answer to this request in the response")
}

func result(answer *mcp.Message) (mcp.Object, error) {
	if answer.Err != nil {
		return mcp.Object{}, answer.Err
	}
	return answer.Result, nil
}

// receive takes one message of a response and returns it when it is the answer.
func (l *httpLink) receive(ctx context.Context, out *outgoing, m *mcp.Message) *mcp.Message {
	switch {
	case m.IsResponse() && m.ID == out.id:
		return m
	case m.IsResponse():
		l.conn.count(Foreign, 1)
	case m.IsRequest():
		l.answer(ctx, m, out)
	case out.owns(m), m.Method == mcp.NotifyMessage:
		out.deliver(ctx, m)
	default:
		l.conn.notified(m)
	}
	return nil
}

// answer takes a request of the server; out is the request on whose stream it came, nil when it came on none. A modern
// server must not ask, and has no session to answer under.
func (l *httpLink) answer(ctx context.Context, m *mcp.Message, out *outgoing) {
	if l.state.Load() == nil {
		l.conn.count(Garbage, 1)
		return
	}
	if answer := l.conn.question(m, out); answer != nil {
		l.tell(ctx, answer)
	}
}

// refused turns an HTTP status that is no answer into an error.
func (l *httpLink) refused(out *outgoing, s *session, resp *http.Response) error {
	cause := &statusError{resp.StatusCode}
	if resp.StatusCode < 400 || resp.StatusCode > 599 {
		return l.conn.server.protocol("%w", cause)
	}
	answered := l.refusal(out, resp)
	legacySession := s != nil && s.id != "" && out.method != mcp.MethodInitialize
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound:
		if answered != nil {
			return answered
		}
		if legacySession && resp.StatusCode == http.StatusNotFound {
			return &sessionError{s}
		}
	}
	return l.conn.server.unavailable(resp.StatusCode >= 500, cause)
}

// refusal returns the JSON-RPC error in the body of a refusal. A legacy server's must carry the request's id, because
// those without come from the transport and not from the server's own answer; a modern server's may carry none.
func (l *httpLink) refusal(out *outgoing, resp *http.Response) *mcp.Error {
	body, err := readBody(resp, maxRefusal)
	if err != nil {
		return nil //nolint:nilerr // then the status says it all
	}
	envelope, _ := mcp.ParseObject(body) // what is none has no code
	id := envelope.Value("id")
	if mediaType(resp.Header) != typeJSON || !id.IsNull() && mcp.ID(id) != out.id || id.IsNull() && out.header == nil {
		return nil
	}
	detail := envelope.Object("error")
	code, ok := detail.Value("code").Int()
	if !ok {
		return nil
	}
	if out.header == nil && resp.StatusCode == http.StatusBadRequest {
		l.conn.doubted() // it may not know the session, and say so in its own way
	}
	return &mcp.Error{Code: int(code), Message: detail.Text("message"), Data: detail.Value("data")}
}

// send posts a notification or an answer to a server's request.
func (l *httpLink) send(ctx context.Context, body []byte) error {
	header := l.base
	if s := l.state.Load(); s != nil {
		header = s.post
	}
	resp, sent, err := l.do(ctx, http.MethodPost, header, body)
	if err != nil {
		return l.conn.server.unavailable(sent, err)
	}
	defer discard(resp)
	l.drain(resp)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return l.conn.server.unavailable(true, &statusError{resp.StatusCode})
	}
	return nil
}

func (l *httpLink) tell(ctx context.Context, body []byte) {
	if !l.asides.run(ctx, func(ctx context.Context) { _ = l.send(ctx, body) }) { // nobody waits for it
		l.conn.count(Flooded, 1)
	}
}

// close ends the session.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
func (l *httpLink) close(ctx context.Context, polite bool) {
	l.asides.close()
	if s := l.state.Load(); polite && s != nil && s.id != "" {
		if resp, _, err := l.do(ctx, http.MethodDelete, s.get, nil); err == nil {
			discard(resp)
		}
	}
}
