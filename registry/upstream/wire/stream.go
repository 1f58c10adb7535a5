package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sse"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/pace"
)

// Limits of streams.
const (
	resumeMax    = 5                      // attempts in a row that bring nothing
	reconnectMin = 100 * time.Millisecond // between two streams
	settled      = 10 * time.Second       // a stream that lasted so long was good
)

// place is how far a stream was read.
type place struct {
	id    string        // of the last event, "" when none had one
	retry time.Duration // how long the server wants to be left alone
	news  bool          // something came since news was last cleared
}

// messages reads the messages of a stream until take has enough, and tells how far it came. The error is nil when the
// stream just ended.
func (l *HTTP) messages(body io.Reader, at *place, take func(*mcp.Message) (enough bool)) error {
	for event, err := range sse.Read(body, maxMessage) {
		if errors.Is(err, sse.ErrTooLong) {
			l.up.Count(Oversized, 1)
			return protocol("%w", ErrTooLarge)
		}
		if err != nil {
			return err
		}
		at.news = true
		if event.HasID {
			at.id = event.ID
		}
		if event.Retry > 0 {
			at.retry = event.Retry
		}
		if len(event.Data) == 0 || event.Type != "" && event.Type != "message" {
			continue
		}
		messages, err := l.read.messages(bytes.Clone(event.Data))
		if err != nil {
			return protocol("read event: %w", err)
		}
		if slices.ContainsFunc(messages, take) {
			return nil
		}
	}
	return nil
}

// readStreams reads the answer from an event stream. A legacy server may end the stream before the answer; then the
// rest is asked for, from the last event on.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery
func (l *HTTP) readStreams(ctx context.Context, out *Request, s *session, resp *http.Response) (mcp.Object, error) {
	var (
		at     place
		answer *mcp.Message
	)
	take := func(m *mcp.Message) bool {
		answer = l.receive(ctx, out, m)
		return answer != nil
	}
	for idle := 0; ; idle++ {
		err := l.messages(resp.Body, &at, take)
		if answer != nil {
			l.drain(resp)
			return result(answer)
		}
		discard(resp)
		var broken *ProtocolError
		switch {
		case ctx.Err() != nil:
			return mcp.Object{}, ctx.Err()
		case errors.As(err, &broken):
			return mcp.Object{}, err
		case s == nil || at.id == "":
			return mcp.Object{}, unavailable(true, errors.Join(ErrEnded, err))
		}
		if at.news {
			idle, at.news = 0, false
		}
		if resp, err = l.resume(ctx, s, &at, idle); err != nil { //nolint:bodyclose // closed in the next turn
			return mcp.Object{}, err
		}
	}
}

// resume opens a broken stream again, behind the last event that came.
func (l *HTTP) resume(ctx context.Context, s *session, at *place, idle int) (*http.Response, error) {
	header := s.get.Clone()
	header.Set(mcp.HeaderLastEventID, at.id)
	for ; idle < resumeMax; idle++ {
		if !pace.Wait(ctx, max(at.retry, reconnectMin<<idle)) {
			return nil, ctx.Err()
		}
		resp, _, err := l.do(ctx, http.MethodGet, header, nil)
		if err != nil {
			continue // it may be restarting
		}
		if resp.StatusCode == http.StatusOK && mediaType(resp.Header) == typeStream {
			return resp, nil
		}
		discard(resp)
		return nil, unavailable(true, &StatusError{resp.StatusCode})
	}
	return nil, unavailable(true, ErrEnded)
}

// Follow keeps a stream open on which a legacy server sends what belongs to no request. Changes may be missed between
// two streams, so after each opening the list is asked for again.
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#listening-for-messages-from-the-server
func (l *HTTP) Follow(ctx context.Context) error {
	s := l.state.Load()
	if s == nil {
		return nil
	}
	again := false
	for failures := 0; ; failures++ {
		at, began := place{}, time.Now()
		offered, err := l.listen(ctx, s, &at, again)
		again = true
		l.up.Following(false, false)
		var forgotten *SessionError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &forgotten):
			return err
		case !offered:
			return nil
		case at.news, time.Since(began) > settled:
			failures = 0
		}
		l.up.Doubt()
		if !pace.Wait(ctx, max(at.retry, pace.Backoff(failures))) {
			return ctx.Err()
		}
	}
}

// listen opens one stream and reads it until it ends. offered is false for a server that has none.
func (l *HTTP) listen(ctx context.Context, s *session, at *place, again bool) (offered bool, err error) {
	resp, _, err := l.do(ctx, http.MethodGet, s.get, nil)
	if err != nil {
		return true, err
	}
	defer discard(resp)
	switch {
	case resp.StatusCode == http.StatusNotFound && s.id != "":
		return true, &SessionError{l, s}
	case resp.StatusCode >= 500:
		return true, &StatusError{resp.StatusCode}
	case resp.StatusCode != http.StatusOK || mediaType(resp.Header) != typeStream:
		return false, nil
	}
	l.up.Following(true, again)
	return true, l.messages(resp.Body, at, func(m *mcp.Message) bool {
		l.receiveUnasked(ctx, m)
		return false
	})
}

// receiveUnasked takes a message that came on no request's stream.
func (l *HTTP) receiveUnasked(ctx context.Context, m *mcp.Message) {
	switch {
	case m.IsResponse():
		l.up.Count(Foreign, 1)
	case m.IsRequest():
		l.answer(ctx, m, nil)
	case l.calls.tell(m):
	default:
		l.up.Notification(m)
	}
}
