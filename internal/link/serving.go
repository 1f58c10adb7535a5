package link

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime"
)

// Origin says where a forwarded request comes from.
type Origin struct {
	From       string // the replica that has forwarded it
	Remote, ID string // as in Request
	Note       string // likewise
}

type originKey struct{}

// OriginOf returns where a request comes from. It is false for one that was not
// forwarded.
func OriginOf(ctx context.Context) (o Origin, forwarded bool) {
	if of, ok := ctx.Value(originKey{}).(*Origin); ok {
		return *of, true
	}
	return Origin{}, false
}

// WithOrigin returns a context for a request that was forwarded.
func WithOrigin(ctx context.Context, o Origin) context.Context {
	return context.WithValue(ctx, originKey{}, &o)
}

const (
	identifyTime = 10 * time.Second // for a connection to show that it is a replica's
	writeTime    = 10 * time.Second // for the other side to take what is written at once, to a second
	writeSize    = 16 << 10         // bytes of an answer that are gathered before they are written
)

// connection is one that another process has opened. One goroutine serves it.
type connection struct {
	link    *Link
	conn    *tls.Conn
	in      *bufio.Reader
	digest  Digest    // of who is at the other end
	known   bool      // that was a replica once
	out     []byte    // of the answer, what was not written yet
	readBy  time.Time // deadlines that the connection was given; zero: none
	writeBy time.Time
}

// serveConnection serves a connection until it ends, or ctx does.
func (l *Link) serveConnection(ctx context.Context, raw net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	defer raw.Close()                                 //nolint:errcheck // all was said, or nothing can be
	_ = raw.SetDeadline(time.Now().Add(identifyTime)) // if that fails, so does what follows
	conn := tls.Server(raw, l.config.Identity.config(anybody))
	if err := conn.HandshakeContext(ctx); err != nil {
		l.config.Logger.DebugContext(ctx, "another replica did not connect", slog.Any("error", err))
		return
	}
	c := &connection{link: l, conn: conn, in: bufio.NewReader(conn), digest: digestOf(conn.ConnectionState())}
	for c.serve(ctx) {
		continue // with the next request
	}
}

// serve answers one request. It is false if it was the last one.
func (c *connection) serve(ctx context.Context) (more bool) {
	e := &exchange{connection: c}
	var method, target string
	header, err := readHead(c.in, &method, &target, &e.origin.Remote, &e.origin.ID, &e.origin.Note)
	if err == nil {
		e.body.left, err = readLength(c.in)
	}
	if err != nil {
		return false // the other side has left, which it may do at any time
	}
	l := c.link
	l.answering.Add(1) // before it is asked whether this replica leaves, or Leave could miss it
	defer l.answering.Add(-1)
	e.body.of, e.life.of, e.life.whole = e, e, e.body.left == 0
	e.life.Begin(ctx)
	defer e.life.end()
	defer func() { // the answer must not end as if it were whole
		problem := recover()
		more = more && problem == nil
		if problem != nil && problem != http.ErrAbortHandler { //nolint:errorlint // net/http compares it like this
			l.config.Logger.ErrorContext(ctx, "panic", slog.Any("problem", problem), slog.String("stack",
				string(debug.Stack())))
		}
	}()
	var known bool
	if e.origin.From, known = l.config.Directory.Named(ctx, c.digest); known && !c.known {
		c.known = true
		_ = c.conn.SetDeadline(time.Time{}) // if that fails, so does what follows
	}
	switch {
	case !known || l.leaving.Load():
		e.WriteHeader(statusNone)
	case method != "" && l.clients != nil:
		e.answer(method, target, header)
	case target != "":
		e.take(Message{Kind: target, Tenant: e.origin.Remote})
	case l.config.Away != nil && l.config.Away():
		e.WriteHeader(statusAway)
	default:
		e.WriteHeader(http.StatusOK)
	}
	return e.finish() == nil && known
}

// exchange is a request that is being answered, and the http.ResponseWriter of one that
// was forwarded. It belongs to the goroutine of its connection.
type exchange struct {
	connection *connection
	origin     Origin
	life       scope
	body       body
	header     http.Header
	begun      bool  // the head of the answer was made
	failed     error // why nothing more can be written; nil: it can
}

// answer has a request of a client answered.
func (e *exchange) answer(method, target string, header http.Header) {
	r, err := http.NewRequestWithContext(&e.life, method, target, http.NoBody)
	if err != nil {
		e.WriteHeader(http.StatusBadRequest)
		return
	}
	r.RequestURI, r.Header, r.ContentLength = target, header, int64(e.body.left)
	if e.body.left > 0 {
		r.Body = &e.body
	}
	e.connection.link.clients.ServeHTTP(e, r)
}

// take has a message handled, and says what became of it.
func (e *exchange) take(m Message) {
	l := e.connection.link
	h := l.handlers[m.Kind]
	defer l.handling.Add(-1)
	if l.handling.Add(1) > maxMessages || h == nil || e.body.left > maxMessage {
		e.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	data := make([]byte, e.body.left)
	_, err := io.ReadFull(&e.body, data)
	if err == nil {
		m.Parts, err = allTexts(string(data))
	}
	var answer []byte
	if err == nil {
		answer, err = h(&e.life, e.origin.From, m)
	}
	if err != nil {
		l.config.Logger.DebugContext(&e.life, "a message of another replica was not taken",
			slog.String("kind", m.Kind), slog.Any("error", err))
		e.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = e.Write(answer) // or whoever asked is gone
}

// Header implements http.ResponseWriter.
func (e *exchange) Header() http.Header {
	if e.header == nil {
		e.header = make(http.Header)
	}
	return e.header
}

// WriteHeader implements http.ResponseWriter.
func (e *exchange) WriteHeader(status int) {
	if !e.begun {
		e.begun = true
		e.connection.out = appendHead(e.connection.out[:0], e.header, strconv.Itoa(status))
	}
}

// Write implements http.ResponseWriter.
func (e *exchange) Write(data []byte) (int, error) {
	e.WriteHeader(http.StatusOK)
	if len(data) == 0 || e.failed != nil {
		return 0, e.failed // an empty piece would end the answer
	}
	c := e.connection
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(len(data))) //nolint:gosec // bounded by memory
	if len(c.out)+len(data) > writeSize {
		e.write(c.out)
		e.write(data)
		c.out = c.out[:0]
	} else {
		c.out = append(c.out, data...)
	}
	return len(data), e.failed
}

// write writes data, unless that failed before.
func (e *exchange) write(data []byte) {
	if len(data) == 0 || e.failed != nil {
		return
	}
	by := time.Now().Add(writeTime)
	if c := e.connection; by.Sub(c.writeBy) > time.Second { // to set one for each write costs much
		c.writeBy = by
		_ = c.conn.SetWriteDeadline(by) // if that fails, so does the write
	}
	_, e.failed = e.connection.conn.Write(data)
}

// FlushError writes what was gathered. An http.ResponseController calls it.
func (e *exchange) FlushError() error {
	e.WriteHeader(http.StatusOK)
	e.write(e.connection.out)
	e.connection.out = e.connection.out[:0]
	return e.failed
}

// SetReadDeadline says until when the rest of the body must have come. An
// http.ResponseController calls it.
func (e *exchange) SetReadDeadline(by time.Time) error {
	e.body.by = by
	return nil
}

// SetWriteDeadline does nothing: each write has writeTime. An http.ResponseController
// calls it.
func (*exchange) SetWriteDeadline(time.Time) error { return nil }

// finish ends the answer, and takes what nobody has read of the request: the other side
// reads when it has written all of that.
func (e *exchange) finish() error {
	e.life.end() // before the other side may send the next request
	e.WriteHeader(http.StatusOK)
	e.connection.out = binary.BigEndian.AppendUint32(e.connection.out, 0)
	if err := e.FlushError(); err != nil || e.body.left == 0 {
		return err
	}
	e.body.by = time.Now().Add(restTime)
	_, err := io.Copy(io.Discard, &e.body)
	return err
}

// body is that of a request.
type body struct {
	of   *exchange
	left int       // bytes that were not read
	by   time.Time // when they must have come; zero: at some time
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	c := b.of.connection
	if c.in.Buffered() == 0 && !c.readBy.Equal(b.by) {
		c.readBy = b.by
		_ = c.conn.SetReadDeadline(b.by) // if that fails, so does the read
	}
	n, err := c.in.Read(p[:min(len(p), b.left)])
	if b.left -= n; b.left == 0 {
		if !c.readBy.IsZero() {
			c.readBy = time.Time{}
			_ = c.conn.SetReadDeadline(time.Time{}) // likewise
		}
		b.of.life.came()
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close implements io.Closer. The rest is read by finish.
func (*body) Close() error { return nil }

// scope is the context of a request. It ends when the other side leaves, which somebody
// looks for only if somebody waits for that, and when the request has come whole:
//
//	Done ──▶ wanted ─┬─▶ watched: a goroutine reads, where nothing comes before the answer
//	came ──▶ whole  ─┘      │ end: the goroutine is called back, so that the next request is read
//	                        ▼
//	                       over
type scope struct {
	lifetime.Context

	of *exchange

	mu            sync.Mutex    // guards the fields below
	whole, wanted bool          // see above
	over          bool          // the answer is made
	watched       chan struct{} // closed when that goroutine ends; nil: there is none
}

// Value implements context.Context.
func (s *scope) Value(key any) any {
	if key == (originKey{}) {
		return &s.of.origin
	}
	return s.Context.Value(key)
}

// Done implements context.Context.
func (s *scope) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = true
	s.watchLocked()
	return s.Context.Done()
}

// came notes that the request has come whole.
func (s *scope) came() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = true
	s.watchLocked()
}

func (s *scope) watchLocked() {
	if !s.whole || !s.wanted || s.over || s.watched != nil {
		return
	}
	watched := make(chan struct{})
	s.watched = watched
	go func() { // end waits for it
		defer close(watched)
		if _, err := s.of.connection.in.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
			s.End(nil)
		}
	}()
}

// end ends the context. Nobody reads any more then.
func (s *scope) end() {
	s.mu.Lock()
	s.over = true
	watched := s.watched
	s.watched = nil
	s.mu.Unlock()
	if watched != nil {
		conn := s.of.connection.conn
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // if that fails, the read has ended
		<-watched
		_ = conn.SetReadDeadline(time.Time{}) // likewise
	}
	s.Close()
}
