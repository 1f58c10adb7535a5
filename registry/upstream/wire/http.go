package wire

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

// HTTP is Streamable HTTP, under either era. It is safe for concurrent use.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
type HTTP struct {
	up     Events
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

// Site is a server over HTTP.
type Site struct {
	URL     string
	Client  http.RoundTripper // and not a client around it: no redirects, no cookies
	Headers map[string]string // sent with every request; those of the protocol itself cannot be set
	Version string            // of the gateway
}

// NewHTTP returns a link to a server over Streamable HTTP. It sends nothing yet.
func NewHTTP(at Site, up Events) (*HTTP, error) {
	target, err := url.Parse(at.URL)
	if err != nil {
		return nil, unavailable(false, errors.New("url cannot be parsed"))
	}
	return &HTTP{
		up: up, client: at.Client, target: target, base: baseHeader(at),
		read: reader{up.Count}, asides: newAsides(),
	}, nil
}

// baseHeader makes the headers of messages: the operator's and our own.
func baseHeader(at Site) http.Header {
	base := http.Header{}
	for name, value := range at.Headers {
		base.Set(name, value)
	}
	base.Set("Content-Type", "application/json")
	base.Set("Accept", "application/json, text/event-stream")
	base.Set("User-Agent", "drawbridge/"+at.Version)
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

// SessionID returns the id of the session that a handshake opened, "" when there is none.
func (l *HTTP) SessionID() string {
	if s := l.state.Load(); s != nil {
		return s.id
	}
	return ""
}

// Header returns the headers of all messages. They are shared: do not modify.
func (l *HTTP) Header() http.Header { return l.base }

// Begin makes the headers of all later requests. The revision is told where it is asked for, which is since 2025-06-18.
func (l *HTTP) Begin(sessionID, revision string) {
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

func (l *HTTP) Streams() bool { return true }

func (l *HTTP) do(ctx context.Context, method string, header http.Header, body []byte) (resp *http.Response, sent bool, err error) {
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

// Exchange posts a request and reads its answer from the response: a JSON body or an event stream.
func (l *HTTP) Exchange(ctx context.Context, out *Request) (mcp.Object, error) {
	header, s := out.Header, (*session)(nil)
	if header == nil {
		header = l.base
		if s = l.state.Load(); s != nil && out.Method != mcp.MethodInitialize {
			header = s.post
		}
		defer l.calls.add(ctx, out)()
	}
	resp, sent, err := l.do(ctx, http.MethodPost, header, out.Body)
	if err != nil {
		return mcp.Object{}, unavailable(sent, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer discard(resp)
		return mcp.Object{}, l.refused(out, s, resp)
	}
	if out.Method == mcp.MethodInitialize {
		if out.SessionID = resp.Header.Get(mcp.HeaderSessionID); !validSessionID(out.SessionID) {
			discard(resp)
			return mcp.Object{}, protocol("session id is no visible ASCII of bounded length")
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
	return mcp.Object{}, protocol("answer of an unknown media type")
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
func (l *HTTP) readJSON(ctx context.Context, out *Request, resp *http.Response) (mcp.Object, error) {
	body, err := readBody(resp, maxMessage)
	if errors.Is(err, ErrTooLarge) {
		l.up.Count(Oversized, 1)
		return mcp.Object{}, protocol("%w", err)
	}
	if err != nil {
		return mcp.Object{}, unavailable(true, err)
	}
	messages, err := l.read.messages(body)
	if err != nil {
		return mcp.Object{}, protocol("read answer: %w", err)
	}
	for _, m := range messages {
		if answer := l.receive(ctx, out, m); answer != nil {
			return result(answer)
		}
	}
	return mcp.Object{}, protocol("no answer to this request in the response")
}

func result(answer *mcp.Message) (mcp.Object, error) {
	if answer.Err != nil {
		return mcp.Object{}, answer.Err
	}
	return answer.Result, nil
}

// receive takes one message of a response and returns it when it is the answer.
func (l *HTTP) receive(ctx context.Context, out *Request, m *mcp.Message) *mcp.Message {
	switch {
	case m.IsResponse() && m.ID == out.ID:
		return m
	case m.IsResponse():
		l.up.Count(Foreign, 1)
	case m.IsRequest():
		l.answer(ctx, m, out)
	case out.owns(m), m.Method == mcp.NotifyMessage:
		out.deliver(ctx, m)
	default:
		l.up.Notification(m)
	}
	return nil
}

// answer takes a request of the server; out is the request on whose stream it came, nil when it came on none. A modern
// server must not ask, and has no session to answer under.
func (l *HTTP) answer(ctx context.Context, m *mcp.Message, out *Request) {
	if l.state.Load() == nil {
		l.up.Count(Garbage, 1)
		return
	}
	if answer := l.up.Question(m, out); answer != nil {
		l.Tell(ctx, answer)
	}
}

// refused turns an HTTP status that is no answer into an error.
func (l *HTTP) refused(out *Request, s *session, resp *http.Response) error {
	cause := &StatusError{resp.StatusCode}
	if resp.StatusCode < 400 || resp.StatusCode > 599 {
		return protocol("%w", cause)
	}
	answered := l.refusal(out, resp)
	legacySession := s != nil && s.id != "" && out.Method != mcp.MethodInitialize
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound:
		if answered != nil {
			return answered
		}
		if legacySession && resp.StatusCode == http.StatusNotFound {
			return &SessionError{l, s}
		}
	}
	return unavailable(resp.StatusCode >= 500, cause)
}

// refusal returns the JSON-RPC error in the body of a refusal. A legacy server's must carry the request's id, because
// those without come from the transport and not from the server's own answer; a modern server's may carry none.
func (l *HTTP) refusal(out *Request, resp *http.Response) *mcp.Error {
	body, err := readBody(resp, maxRefusal)
	if err != nil {
		return nil //nolint:nilerr // then the status says it all
	}
	envelope, _ := mcp.ParseObject(body) // what is none has no code
	id := envelope.Value("id")
	if mediaType(resp.Header) != typeJSON || !id.IsNull() && mcp.ID(id) != out.ID || id.IsNull() && out.Header == nil {
		return nil
	}
	detail := envelope.Object("error")
	code, ok := detail.Value("code").Int()
	if !ok {
		return nil
	}
	if out.Header == nil && resp.StatusCode == http.StatusBadRequest {
		l.up.Doubt() // it may not know the session, and say so in its own way
	}
	return &mcp.Error{Code: int(code), Message: detail.Text("message"), Data: detail.Value("data")}
}

// Send posts a notification or an answer to a server's request.
func (l *HTTP) Send(ctx context.Context, body []byte) error {
	header := l.base
	if s := l.state.Load(); s != nil {
		header = s.post
	}
	resp, sent, err := l.do(ctx, http.MethodPost, header, body)
	if err != nil {
		return unavailable(sent, err)
	}
	defer discard(resp)
	l.drain(resp)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return unavailable(true, &StatusError{resp.StatusCode})
	}
	return nil
}

func (l *HTTP) Tell(ctx context.Context, body []byte) {
	if !l.asides.run(ctx, func(ctx context.Context) { _ = l.Send(ctx, body) }) { // nobody waits for it
		l.up.Count(Flooded, 1)
	}
}

// Close ends the session.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
func (l *HTTP) Close(ctx context.Context, polite bool) {
	l.asides.close()
	if s := l.state.Load(); polite && s != nil && s.id != "" {
		if resp, _, err := l.do(ctx, http.MethodDelete, s.get, nil); err == nil {
			discard(resp)
		}
	}
}
