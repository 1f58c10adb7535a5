package wire

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// Limits of Streamable HTTP.
const (
	maxSessionID = 1024 // bytes of a session id
	// attempts in a row to resume a stream that bring neither an event nor a stream that
	// lasts
	resumeMax    = 5
	reconnectMin = 100 * time.Millisecond // the least time between the end of a stream and its resumption
	lasted       = 10 * time.Second       // a stream that lasted this long was good: the backoff begins anew
	// the code with which SDKs say, beside 404, that they do not know the session; the
	// one for C# says so as the answer to the request
	codeUnknownSession = -32001
)

// HTTP is Streamable HTTP, of either era. It is safe for concurrent use. Without Begin it
// is a link to a modern server.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
type HTTP struct {
	sender

	up         Events
	target     *url.URL
	base       http.Header             // the headers of every request; shared: not modified
	state      atomic.Pointer[session] // never nil
	read       reader
	memory     Memory
	calls      underway
	background *background
	hasty      atomic.Bool // this server keeps streams open after the answer, so nobody waits for their end
}

var _ Link = (*HTTP)(nil)

// session is what a legacy handshake agreed on. It is immutable; a new handshake makes
// another one. A link begins with one that nothing was agreed on for.
type session struct {
	id       string
	revision string      // "": there was no handshake
	post     http.Header // the headers of a POST
	ready    *dial.Post  // the same, prepared; nil: it cannot be
	get      http.Header // the headers of a GET
}

// SessionError is the error for a request that the server did not run because it does not
// know the session (any more). The request may be sent again after another handshake.
type SessionError struct {
	link  *HTTP
	stale *session
}

func (e *SessionError) Error() string { return "session is unknown to the server" }

// Replaced tells whether another session was opened since the request was sent, so that
// no further handshake is needed.
func (e *SessionError) Replaced() bool { return e.link.state.Load() != e.stale }

// NewHTTP returns a link to a server over Streamable HTTP. It sends nothing yet.
func NewHTTP(at Site, up Events) *HTTP {
	l := &HTTP{
		sender: sender{at.Client, at.Credential}, up: up, target: at.URL, base: baseHeader(at),
		read: reader{up.Count, at.Throttle, at.Turns}, memory: at.Memory, background: newBackground(up),
	}
	l.state.Store(l.newSession("", ""))
	return l
}

// SessionID returns the id of the session that a handshake opened, "" when there is none.
func (l *HTTP) SessionID() string { return l.state.Load().id }

// Header returns the headers of all messages. They are shared: do not modify.
func (l *HTTP) Header() http.Header { return l.base }

// Begin completes the handshake with the headers of the session, which all later requests
// have then. The revision is among them since 2025-06-18, which introduced that header.
func (l *HTTP) Begin(ctx context.Context, sessionID, revision string, completion []byte) error {
	s := l.newSession(sessionID, revision)
	s.ready = l.Prepare(s.post)
	if err := l.postMessage(ctx, Caller{}, l.target, s.post, completion, l.drain); err != nil {
		return err
	}
	l.state.Store(s)
	return nil
}

// newSession returns a session with its headers; the id and the revision are as in
// Abandon.
func (l *HTTP) newSession(sessionID, revision string) *session {
	s := &session{id: sessionID, revision: revision, post: l.base.Clone()}
	if sessionID != "" {
		s.post.Set(mcp.HeaderSessionID, sessionID)
	}
	if revision >= mcp.Revision2506 {
		s.post.Set(mcp.HeaderProtocolVersion, revision)
	}
	s.get = streamHeader(s.post)
	return s
}

// Abandon ends, in the background, a session that a handshake opened at the server and
// that will not be used. An id of "" is of none, and a revision of "" was not agreed on.
func (l *HTTP) Abandon(ctx context.Context, sessionID, revision string) {
	s := l.newSession(sessionID, revision)
	l.background.run(ctx, func(ctx context.Context) { l.end(ctx, s) })
}

// Streams is true: what comes in the answer to a POST belongs to that request.
func (l *HTTP) Streams() bool { return true }

// Prepare makes requests with these headers cheaper to send over this link. It is nil
// where that cannot be done. The headers must not be modified any more.
func (l *HTTP) Prepare(header http.Header) *dial.Post {
	return dial.NewPost(l.client, l.target, header)
}

// do sends a request on behalf of a caller.
func (l *HTTP) do(ctx context.Context, of Caller, method string, header http.Header,
	body []byte,
) (resp *response, sent bool, err error) {
	resp, sent, err = l.roundTrip(ctx, of, l.target, method, header, body)
	if err == nil {
		l.pace(ctx, resp)
	}
	return resp, sent, err
}

// pace has what is large of a response read at the pace of the queue.
func (l *HTTP) pace(ctx context.Context, resp *response) {
	if resp.ContentLength < 0 || resp.ContentLength > fairqueue.Swift {
		resp.Body = l.read.turns.Paced(ctx, resp.Body)
	}
}

// post posts a request, which is prepared unless ready is nil. Either answer is the JSON
// of a response whose header says nothing else of interest, which reserved holds, or resp
// is the response. The error is a *MemoryError or one of the transport; sent is as in
// roundTrip.
func (l *HTTP) post(
	ctx context.Context, ready *dial.Post, header http.Header, out *Request, reserved *share.Reservation,
) (answer []byte, resp *response, sent bool, err error) {
	if ready != nil {
		resp, sent, err = l.carried(ctx, out.Caller, func(g *credential.Headers) (
			other *http.Response, sent bool, err error,
		) {
			answer, other, sent, err = ready.Send(ctx, g.Lines(out.Trace), out.Body, (*holder)(reserved))
			return other, sent, err
		})
		switch {
		case answer != nil || err != nil:
			return answer, nil, sent, err
		case resp != nil:
			l.pace(ctx, resp)
			return nil, resp, sent, nil
		} // this one it does not send
	}
	resp, sent, err = l.do(ctx, out.Caller, http.MethodPost, header, out.Body)
	return nil, resp, sent, err
}

// Exchange posts a request and reads its answer from the response, which is a JSON body
// or an event stream.
func (l *HTTP) Exchange(ctx context.Context, out *Request) (mcp.Object, error) {
	header, ready, s := out.Header, out.Post, l.state.Load()
	if header == nil {
		header = l.base
		if out.Method != mcp.MethodInitialize {
			header, ready = s.post, s.ready
		}
		if out.Notify != nil {
			defer l.calls.add(ctx, out)()
		}
	}
	reserved := out.Memory
	if reserved == nil {
		reserved = l.memory.reserve()
		defer reserved.Release()
	}
	answer, resp, sent, err := l.post(ctx, ready, header, out, reserved)
	switch {
	case err != nil:
		return mcp.Object{}, unavailable(sent, err)
	case answer != nil:
		return l.takeJSON(ctx, out, answer, reserved)
	// NestJS answers a POST with 201 if a server does not say otherwise.
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated:
		return mcp.Object{}, l.refused(out, s, resp)
	}
	if out.Method == mcp.MethodInitialize {
		id := resp.Header.Get(mcp.HeaderSessionID)
		if !validSessionID(id) {
			resp.discard()
			return mcp.Object{}, protocol("session id is no visible ASCII of bounded length")
		}
		out.SessionID = id
	}
	switch resp.media {
	case typeJSON:
		return l.readJSON(ctx, out, resp, reserved)
	case typeStream:
		return l.readStreams(ctx, out, s, resp, reserved)
	case typeUnknown:
	}
	resp.discard()
	if !isPlain(resp.Header) {
		return mcp.Object{}, protocol("answer with Content-Encoding %.100q, which nobody asked for",
			resp.Header.Get("Content-Encoding"))
	}
	return mcp.Object{}, protocol("answer of the media type %.100q, which MCP has not",
		resp.Header.Get("Content-Type"))
}

// validSessionID tells whether id may be sent in a header: visible ASCII of bounded
// length. "" is valid and means that the server opened no session.
func validSessionID(id string) bool {
	other := func(c rune) bool { return c <= ' ' || c > '~' }
	return len(id) <= maxSessionID && !strings.ContainsFunc(id, other)
}

// readJSON reads the answer from a JSON body.
func (l *HTTP) readJSON(ctx context.Context, out *Request, resp *response,
	reserved *share.Reservation,
) (mcp.Object, error) {
	body, err := resp.read(maxMessage, reserved)
	if err == nil {
		return l.takeJSON(ctx, out, body, reserved)
	}
	if errors.Is(err, ErrTooLarge) {
		l.up.Count(Oversized, 1)
		return mcp.Object{}, protocol("%w", err)
	}
	return mcp.Object{}, unavailable(true, err)
}

// takeJSON takes the answer from a JSON body: one message, or several as 2025-03-26
// allows.
func (l *HTTP) takeJSON(ctx context.Context, out *Request, body []byte,
	reserved *share.Reservation,
) (mcp.Object, error) {
	var one [1]*mcp.Message
	messages, err := l.read.inTurn(ctx, reserved.User(), body, one[:0])
	switch {
	case ctx.Err() != nil:
		return mcp.Object{}, ctx.Err()
	case err != nil:
		return mcp.Object{}, unread(err)
	}
	for _, m := range messages {
		if answer := l.receive(ctx, out, m); answer != nil {
			return result(answer)
		}
	}
	return mcp.Object{}, protocol("no answer to this request in the response")
}

// result returns what an answer holds: its result or its error.
func result(answer *mcp.Message) (mcp.Object, error) {
	if answer.Err != nil {
		return mcp.Object{}, answer.Err
	}
	return answer.Result, nil
}

// receive takes one message of the response to out, and returns it when it is the answer.
// A nil out is none: the message came on the stream of the server's own.
func (l *HTTP) receive(ctx context.Context, out *Request, m *mcp.Message) *mcp.Message {
	switch {
	case m.IsResponse() && out != nil && m.ID == out.ID:
		return m
	case m.IsResponse():
		l.up.Count(Foreign, 1)
	case m.IsRequest():
		l.answer(ctx, m, out)
	case out != nil && (owner(m) == out.ID || m.Method == mcp.NotifyMessage):
		out.deliver(ctx, m)
	case out == nil && l.calls.tell(m): // what comes on the response to another call is nobody's
	default:
		l.up.Notification(m)
	}
	return nil
}

// answer takes a request of the server. out is the request on whose stream it came, nil
// when it came on none. A modern server must not send requests, and there would be no
// session in which to answer, so it gets no answer.
func (l *HTTP) answer(ctx context.Context, m *mcp.Message, out *Request) {
	if l.state.Load().revision == "" {
		l.up.Count(Garbage, 1)
		return
	}
	if answer := l.up.Question(m, out); answer != nil {
		l.Tell(ctx, answer)
	}
}

// refused turns an HTTP status that is no success into an error. With 400 and 404, and
// with 500 to what a client has asked for, a JSON-RPC error in it is the answer.
// Otherwise the server is taken to have run nothing, unless the status is 500 or more.
func (l *HTTP) refused(out *Request, s *session, resp *response) error {
	defer resp.discard()
	cause := refusedBy(resp)
	if resp.StatusCode < 400 || resp.StatusCode > 599 {
		return protocol("%w", cause)
	}
	answered, pings := l.refusal(out, resp), out.Method == mcp.MethodPing
	begins := out.Method == mcp.MethodInitialize || out.Method == mcp.MethodDiscover
	// the gateway asks for these again, while their answer would count for good
	again := begins || out.Method == mcp.MethodListen || mcp.MethodOf(out.Method).Lists
	if pings && answered != nil && answered.Code != mcp.CodeMethodNotFound &&
		answered.Code != mcp.CodeInvalidParams {
		answered = nil // with such a status it is said of the session
	}
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound && s.id != "" && !begins &&
		(answered == nil || answered.Code == codeUnknownSession):
		return &SessionError{l, s}
	case answered != nil && (status == http.StatusBadRequest || status == http.StatusNotFound ||
		status == http.StatusInternalServerError && !again):
		// Some servers say so when they do not know the session. Whoever asked for a
		// proof of life judges it: a server that does not know ping would be asked
		// without end.
		if out.Header == nil && !pings {
			l.up.CheckAlive()
		}
		return answered
	}
	return unavailable(resp.StatusCode >= 500, cause)
}

// refusal returns the JSON-RPC error in the body of a refusal, nil when there is none.
// From a legacy server it must carry the id of the request: an error without one comes
// from the server's HTTP layer and answers no call. From a modern server it may carry
// none, but with 500.
func (l *HTTP) refusal(out *Request, resp *response) *mcp.Error {
	body, err := resp.read(maxRefusal, nil) // so little is covered
	if err != nil {
		return nil //nolint:nilerr // then the status says it all
	}
	envelope, _ := mcp.ParseObject(body) // what is no object has no code either
	id := envelope.Value("id")
	if resp.media != typeJSON || !id.IsNull() && mcp.ID(id) != out.ID ||
		id.IsNull() && (out.Header == nil || resp.StatusCode >= http.StatusInternalServerError) {
		return nil
	}
	return mcp.ErrorIn(envelope.Value("error"))
}

// readStreams reads the answer from an event stream. A legacy server may end the stream
// before the answer; then the rest is asked for, from the last event on.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
func (l *HTTP) readStreams(ctx context.Context, out *Request, s *session, resp *response,
	reserved *share.Reservation,
) (mcp.Object, error) {
	var (
		at     progress
		answer *mcp.Message
	)
	take := func(m *mcp.Message) bool {
		answer = l.receive(ctx, out, m)
		return answer != nil
	}
	for idle := 0; ; idle++ {
		began := time.Now()
		err := l.read.stream(ctx, resp.Body, &at, reserved, take)
		if answer != nil {
			l.drain(resp)
			return result(answer)
		}
		resp.discard()
		var (
			broken *ProtocolError
			full   *MemoryError
		)
		switch {
		case ctx.Err() != nil:
			return mcp.Object{}, ctx.Err()
		case errors.As(err, &broken), errors.As(err, &full):
			return mcp.Object{}, err
		case s.revision == "" || at.id == "":
			return mcp.Object{}, unavailable(true, errors.Join(ErrEnded, err))
		}
		if at.fresh || time.Since(began) > lasted {
			idle, at.fresh = 0, false
		}
		if resp, err = l.resume(ctx, out, s, &at, idle); err != nil {
			return mcp.Object{}, err
		}
	}
}

// resume opens the broken stream of a request again behind the last event that came, on
// behalf of the same caller. idle is how many attempts in a row have brought nothing.
func (l *HTTP) resume(ctx context.Context, out *Request, s *session, at *progress, idle int) (*response,
	error,
) {
	header := s.get.Clone()
	header.Set(mcp.HeaderLastEventID, at.id)
	why := ErrEnded
	for ; idle < resumeMax; idle++ {
		if !pace.Wait(ctx, max(at.retry, reconnectMin<<idle)) {
			return nil, ctx.Err()
		}
		resp, _, err := l.do(ctx, out.Caller, http.MethodGet, header, nil)
		if err != nil {
			continue // the server may be restarting
		}
		if resp.StatusCode == http.StatusOK && resp.media == typeStream {
			return resp, nil
		}
		resp.discard()
		switch {
		case resp.StatusCode == http.StatusTooManyRequests: // it will take the request later
		// as from a balancer while the server restarts, or from a server that did not
		// notice yet that the stream is broken
		case resp.StatusCode >= 500, resp.StatusCode == http.StatusConflict:
			why = refusedBy(resp)
		default:
			return nil, unavailable(true, refusedBy(resp))
		}
	}
	return nil, unavailable(true, why)
}

// Follow keeps the stream open on which a legacy server sends what belongs to no request.
// It returns nil when there is no such stream, and a SessionError when the server does
// not know the session. Changes may be missed between two streams, so Events is told of
// each opening after the first. A server that had the stream is asked for it again
// whatever it answers: it may not have noticed yet that the one before is gone, and so
// refuse another, or not take the credential of the moment.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server
func (l *HTTP) Follow(ctx context.Context) error {
	s := l.state.Load()
	if s.revision == "" {
		return nil
	}
	again, had := false, false // had: there was such a stream before
	for failures := 0; ; failures++ {
		at, began := progress{}, time.Now()
		offered, err := l.followOnce(ctx, s, &at, again)
		again, had = true, had || at.opened
		l.up.Following(false, false)
		var forgotten *SessionError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &forgotten):
			return err
		case !offered && !had:
			return nil
		case at.fresh, time.Since(began) > lasted:
			failures = 0
		}
		l.up.CheckAlive()
		if !pace.Wait(ctx, max(at.retry, pace.Backoff(failures))) {
			return ctx.Err()
		}
	}
}

// followOnce opens one such stream and reads it until it ends. offered is false when the
// server has none.
func (l *HTTP) followOnce(ctx context.Context, s *session, at *progress,
	again bool,
) (offered bool, err error) {
	resp, _, err := l.do(ctx, Caller{}, http.MethodGet, s.get, nil)
	if err != nil {
		return true, err
	}
	defer resp.discard()
	switch {
	case resp.StatusCode == http.StatusNotFound && s.id != "":
		return true, &SessionError{l, s}
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests:
		return true, refusedBy(resp)
	case resp.StatusCode != http.StatusOK || resp.media != typeStream:
		return false, nil
	}
	at.opened = true
	l.up.Following(true, again)
	reserved := l.memory.reserve()
	defer reserved.Release()
	return true, l.read.stream(ctx, resp.Body, at, reserved, func(m *mcp.Message) bool {
		return l.receive(ctx, nil, m) != nil // it is none's answer
	})
}

// drain reads what follows the answer, so that the connection can be used again. A server
// that keeps its streams open is waited for only once.
func (l *HTTP) drain(resp *response) {
	if l.hasty.Load() {
		resp.discard()
	} else if !resp.drain() {
		l.hasty.Store(true)
	}
}

// Send posts a notification, or the answer to a server's request, and waits until the
// server has accepted it.
func (l *HTTP) Send(ctx context.Context, body []byte) error {
	return l.postMessage(ctx, Caller{}, l.target, l.state.Load().post, body, l.drain)
}

// Tell posts a message in the background. When too many are on their way, the message is
// dropped and counted.
func (l *HTTP) Tell(ctx context.Context, body []byte) { l.background.tell(ctx, body, l.Send) }

// Close waits for messages in the background. If polite, it also ends the session at the
// server.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
func (l *HTTP) Close(ctx context.Context, polite bool) {
	l.background.close()
	if polite {
		l.end(ctx, l.state.Load())
	}
}

// end ends a session at the server, if it has a name.
func (l *HTTP) end(ctx context.Context, s *session) {
	if s.id == "" {
		return
	}
	if resp, _, err := l.do(ctx, Caller{}, http.MethodDelete, s.get, nil); err == nil {
		resp.discard()
	}
}
