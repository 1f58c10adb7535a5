package dial

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	errHeaderSize = errors.New("response header is too large")
	errSwitched   = errors.New("server switched to a protocol that nobody asked for")
)

// conn is one connection. Either the pool has it, or one request; only whoever has it
// uses it, so it needs no mutex. cut alone may be called at any time, and is: when the
// context of the request ends.
type conn struct {
	net.Conn
	to     origin             // as in the URLs of its requests
	owner  *transport         // whose it is
	raw    syscall.RawConn    // to look at the socket; nil: not possible, so the connection is used once
	under  *records           // what is under TLS; nil: there is no TLS
	step   func(uintptr) bool // the method ask, so that it is not allocated for each request
	turn   turn               // of begin
	out    []byte             // memory for requests
	memory []byte             // for the first bytes of a response; nil: none has come yet
	first  []byte             // what was read of the response and not used yet, in memory
	// reads through Read of this conn, and so no more than left; nil: not needed yet
	in      *bufio.Reader
	left    int64         // bytes that may still be read, so that a response's header ends
	cut     func()        // closes the connection, which ends every wait for it
	watched watched       // of the canceler
	life    time.Duration // for which it may be idle, by the last response that named a time
	until   time.Time     // when it has been idle for that long
}

// Read implements io.Reader, for in. It fails once left is used up.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeaderSize
	}
	p = p[:min(int64(len(p)), c.left)]
	n, err := copy(p, c.first), error(nil)
	if c.first = c.first[n:]; n == 0 {
		n, err = c.Conn.Read(p)
	}
	c.left -= int64(n)
	return n, err
}

// release ends a request's use of the connection. keep says that its response was read to
// the end and that the server lets the connection open. Even then it is closed if the
// context has cut it, or if bytes are left: they are nothing that anybody asked for, and
// the next request would take them for its response. With keep, nobody may be reading any
// more; without it, somebody may, and finds the connection closed.
func (c *conn) release(keep bool) {
	if c.owner.canceler.remove(c) && keep && c.reusable() {
		c.owner.idle.put(c)
		return
	}
	c.cut()
}

// reusable tells whether the connection can be looked at before its next request, and
// whether nothing is left in it.
func (c *conn) reusable() bool {
	return c.raw != nil && len(c.first) == 0 && (c.in == nil || c.in.Buffered() == 0) && c.clean()
}

// respond returns the response of which the first bytes have come. Its body gives the
// connection back.
func (c *conn) respond(ctx context.Context, r *http.Request) (*http.Response, error) {
	response, err := c.receive(r)
	if err != nil {
		if c.turn.unsent != nil {
			err = c.turn.unsent
		}
		c.release(false)
		return nil, err
	}
	c.life = idleTime([]byte(strings.Join(response.Header["Keep-Alive"], ",")), c.life)
	keep := c.turn.unsent == nil && !response.Close
	if response.Body == http.NoBody {
		c.release(keep)
		return response, nil
	}
	response.Body = &body{in: response.Body, conn: c, ctx: ctx, keep: keep}
	return response, nil
}

// appendHead appends the request line and the header of a request, without the length of
// its body and without the empty line that ends it. It writes what net/http would write.
// https://www.rfc-editor.org/rfc/rfc9112#section-2.1
func appendHead(b []byte, r *http.Request) []byte {
	method := cmp.Or(r.Method, http.MethodGet)
	b = append(append(b, method...), ' ')
	b = append(b, r.URL.RequestURI()...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(append(b, cmp.Or(r.Host, r.URL.Host)...), "\r\n"...)
	if _, named := r.Header["User-Agent"]; !named {
		b = append(b, "User-Agent: Go-http-client/1.1\r\n"...)
	}
	for name, values := range r.Header {
		switch http.CanonicalHeaderKey(name) {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue // fields of the request say these, and net/http ignores them here too
		}
		for _, value := range values {
			if value == "" && name == "User-Agent" {
				continue // as in net/http, an empty User-Agent means that none is sent
			}
			b = append(append(b, name...), ": "...)
			b = append(append(b, textproto.TrimString(value)...), "\r\n"...)
		}
	}
	return b
}

// receive reads the header of the response. It skips informational responses (1xx), which
// may come before it in any number; left bounds them all together.
func (c *conn) receive(r *http.Request) (*http.Response, error) {
	c.left = maxHeader
	if c.in == nil {
		c.in = bufio.NewReader(c)
	}
	for {
		response, err := http.ReadResponse(c.in, r)
		if err != nil {
			return nil, err
		}
		if response.StatusCode == http.StatusSwitchingProtocols {
			return nil, errSwitched
		}
		if response.StatusCode < 100 || response.StatusCode > 199 {
			c.left = math.MaxInt64
			return response, nil
		}
	}
}

// body is the body of a response. It gives the connection back, once, as soon as it was
// read to its end, failed or was closed. Read and Close may be called at the same time.
type body struct {
	// of net/http: it locks, so that two do not read at once, and never reads beyond the
	// end
	in       io.Reader
	conn     *conn
	ctx      context.Context //nolint:containedctx // of the request whose response this is
	keep     bool            // the connection can be used again after the end
	closed   atomic.Bool     // Close was called
	returned atomic.Bool     // the connection was given back
}

// Read implements io.Reader. Its error is that of the context if that has ended, since
// that is what cut the connection.
func (b *body) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.in.Read(p)
	if err == nil {
		return n, nil
	}
	b.giveBack(b.keep && err == io.EOF) //nolint:errorlint // a reader's end is this value
	switch {
	case err == io.EOF: //nolint:errorlint // as above
	case b.ctx.Err() != nil:
		err = b.ctx.Err()
	case b.closed.Load():
		err = http.ErrBodyReadAfterClose
	}
	return n, err
}

// Close implements io.Closer. It closes the connection of a body that was not read to its
// end, which ends a Read that waits: to read the rest could take for ever, as with an
// event stream.
func (b *body) Close() error {
	b.closed.Store(true)
	b.giveBack(false)
	return nil
}

// giveBack gives the connection back unless that has happened. Only the first of several
// calls has an effect.
func (b *body) giveBack(keep bool) {
	if !b.returned.Swap(true) {
		b.conn.release(keep)
	}
}
