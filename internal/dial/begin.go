package dial

import (
	"errors"
	"io"
	"net/http"
	"strconv"
)

// firstRead is how much is read of a response at once, in bytes. A usual header, and most
// answers, fit in.
const firstRead = 4 << 10

// maxRetainedOut is how much memory for requests a connection keeps, in bytes. Nobody
// counts it, and a call may wait long, and a connection be idle long after it.
const maxRetainedOut = 16 << 10

// errStale is the error for an idle connection that cannot be used again: the server has
// closed it, or has sent what nobody asked for. Nothing was written to it.
var errStale = errors.New("idle connection was closed, or has bytes that nobody asked for")

// Lines appends lines of an HTTP/1.1 header to b, each with its end.
type Lines func(b []byte) []byte

// message is a request as it is written.
type message struct {
	raw    []byte // all but the body, which is no HTTP; nil: the fields below say it
	head   []byte // as of appendHead
	more   Lines  // further lines of the header; nil: there are none
	method string
	body   []byte
	wrote  func() // called once the server may have received the request; nil: nobody wants to know
}

// appendTo appends all of the request. It says the length of a body where net/http would.
func (m *message) appendTo(b []byte) []byte {
	b = append(b, m.head...)
	if m.more != nil {
		b = m.more(b)
	}
	if len(m.body) > 0 || m.method == http.MethodPost || m.method == http.MethodPut ||
		m.method == http.MethodPatch {
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, int64(len(m.body)), 10), "\r\n"...)
	}
	return append(append(b, "\r\n"...), m.body...)
}

// turn is what begin and ask tell each other. ask cannot get it as a parameter, and a
// closure that knew it would be allocated for each request.
type turn struct {
	out     []byte // the request; nil: it was written
	body    []byte // of one that is no HTTP, which is written after that
	wrote   func() // as of message
	idle    bool   // the connection was used before, so nothing may have come meanwhile
	written int    // bytes of the request
	unsent  error  // why not all of it was written; nil: it was
	err     error  // why no byte of the response came
}

// begin sends a request, head and body at once, and waits for the first bytes of the
// response. It leaves them in first. An idle connection is looked at before: errStale
// means that nothing was sent, and that the request may be sent over another. sent tells,
// also beside another error, whether the server may have received the request.
func (c *conn) begin(m *message, idle bool) (sent bool, err error) {
	if m.raw == nil {
		c.out = m.appendTo(c.out[:0])
		c.turn = turn{out: c.out, wrote: m.wrote, idle: idle}
	} else {
		c.turn = turn{out: m.raw, body: m.body, idle: idle}
	}
	if c.memory == nil {
		c.memory = make([]byte, firstRead)
	}
	if c.raw == nil {
		// It is never idle. The response is read although writing failed: a server may
		// refuse a request, and close, before it has read it all.
		c.write()
		c.read()
	} else if err := c.raw.Read(c.step); err != nil {
		c.turn.err = err
	} else if c.under != nil && c.turn.err == nil {
		c.read()
	}
	t := &c.turn
	if t.err == io.EOF { //nolint:errorlint // a reader's end is this value
		t.err = io.ErrUnexpectedEOF
	}
	if t.err != nil && t.unsent != nil {
		t.err = t.unsent
	}
	// nobody heeds a part of what is no HTTP
	return t.written > 0 && (m.raw == nil || t.unsent == nil), t.err
}

// read reads the first bytes of the response.
func (c *conn) read() {
	n, err := c.Conn.Read(c.memory)
	c.first = c.memory[:n]
	if n == 0 {
		c.turn.err = err
	}
}

// write writes the request of the turn.
func (c *conn) write() {
	t := &c.turn
	t.written, t.unsent = c.Write(t.out)
	if t.unsent == nil && len(t.body) > 0 {
		_, t.unsent = c.Write(t.body)
	}
	t.out, t.body = nil, nil
	if cap(c.out) > maxRetainedOut {
		c.out = nil
	}
	if t.written > 0 && t.wrote != nil {
		t.wrote()
	}
}
