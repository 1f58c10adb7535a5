package dial

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

var (
	errHeaderSize = errors.New("response header is too large")
	errSwitched   = errors.New("server switched to a protocol that nobody asked for")
)

// conn is one connection. One request at a time has it.
type conn struct {
	net.Conn
	host   string // of the URLs that it is for
	home   *pool
	raw    syscall.RawConn
	in     *bufio.Reader // reads from the conn, and so within room
	room   int64         // bytes that may still be read
	out    []byte        // what is written, reused
	cut    func()        // closes the connection, which ends every wait for it
	detach func() bool   // keeps the context of the request from cutting the connection; false: it has
	since  time.Time     // when it became idle
}

// Read implements io.Reader.
func (c *conn) Read(p []byte) (int, error) {
	if c.room <= 0 {
		return 0, errHeaderSize
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.room)])
	c.room -= int64(n)
	return n, err
}

// release gives the connection back when it may be used again, and closes it otherwise.
func (c *conn) release(keep bool) {
	if c.detach() && keep && c.in.Buffered() == 0 {
		c.home.put(c)
		return
	}
	c.cut()
}

// exchange sends a request and reads the header of its response. keep tells whether the connection can be used again
// once the body is read.
func (c *conn) exchange(r *http.Request) (response *http.Response, keep bool, err error) {
	unsent := c.send(r)
	// A server may answer and close before it has read everything.
	response, err = c.receive(r)
	if err != nil && unsent != nil {
		err = unsent
	}
	if err != nil {
		return nil, false, err
	}
	return response, unsent == nil && !response.Close, nil
}

// send writes a request, all at once.
func (c *conn) send(r *http.Request) error {
	size := 0
	if hasBody(r) {
		size = int(r.ContentLength)
	}
	out := appendHead(c.out[:0], r, size)
	head := len(out)
	out = slices.Grow(out, size)[:head+size]
	c.out = out
	if size > 0 {
		if _, err := io.ReadFull(r.Body, out[head:]); err != nil {
			c.cut() // nothing was sent, so nothing comes
			return err
		}
	}
	n, err := c.Write(out)
	if trace := httptrace.ContextClientTrace(r.Context()); n > 0 && trace != nil && trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
	return err
}

// appendHead appends the line and the header of a request.
// https://www.rfc-editor.org/rfc/rfc9112#section-2.1
func appendHead(b []byte, r *http.Request, length int) []byte {
	method := cmp.Or(r.Method, http.MethodGet)
	b = append(append(b, method...), ' ')
	b = append(b, r.URL.RequestURI()...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(append(b, cmp.Or(r.Host, r.URL.Host)...), "\r\n"...)
	if length > 0 || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch {
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, int64(length), 10), "\r\n"...)
	}
	if _, named := r.Header["User-Agent"]; !named {
		b = append(b, "User-Agent: Go-http-client/1.1\r\n"...)
	}
	for name, values := range r.Header {
		switch http.CanonicalHeaderKey(name) {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue // told by the request itself
		}
		for _, value := range values {
			if value == "" && name == "User-Agent" {
				continue // which is how to send none
			}
			b = append(append(b, name...), ": "...)
			b = append(append(b, textproto.TrimString(value)...), "\r\n"...)
		}
	}
	return append(b, "\r\n"...)
}

// receive reads the header of the response that ends the exchange.
func (c *conn) receive(r *http.Request) (*http.Response, error) {
	c.room = maxHeader
	for {
		response, err := http.ReadResponse(c.in, r)
		if err != nil {
			return nil, err
		}
		if response.StatusCode == http.StatusSwitchingProtocols {
			return nil, errSwitched
		}
		if response.StatusCode < 100 || response.StatusCode > 199 {
			c.room = math.MaxInt64
			return response, nil
		}
	}
}

// body is the body of a response. Read and Close may be called at once.
type body struct {
	in      io.Reader // which lets one reader in at a time, and none beyond the end
	conn    *conn
	request *http.Request
	keep    bool
	closed  atomic.Bool
	settled atomic.Bool // the connection belongs to it no more
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.in.Read(p)
	if err == nil {
		return n, nil
	}
	b.settle(b.keep && err == io.EOF) //nolint:errorlint // a reader's end is this value
	switch {
	case err == io.EOF: //nolint:errorlint // as above
	case b.request.Context().Err() != nil:
		err = b.request.Context().Err()
	case b.closed.Load():
		err = http.ErrBodyReadAfterClose
	}
	return n, err
}

// Close implements io.Closer. It ends a Read that waits.
func (b *body) Close() error {
	b.closed.Store(true)
	b.settle(false)
	return nil
}

func (b *body) settle(keep bool) {
	if !b.settled.Swap(true) {
		b.conn.release(keep)
	}
}
