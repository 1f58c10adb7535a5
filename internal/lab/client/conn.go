// Package client is clients of MCP that write their requests by hand, so that they cost
// little beside what they measure, and can misbehave. A connection that breaks panics
// with its error, as package must does. The package does not know what is asked, and
// judges no answer.
package client

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Patience is how long a client waits for one answer, unless its connection says else.
const Patience = 30 * time.Second

// Conn is one connection. It is for one goroutine at a time, but for Close and Traffic.
type Conn struct {
	net.Conn

	In       *bufio.Reader
	Patience time.Duration // for one answer
	traffic  atomic.Int64
	body     []byte      // of the last answer
	stop     func() bool // of what closes it when the context ends
}

// Dial connects from a loopback address of its own, such as "127.0.0.2", or from any when
// it is "". The connection is closed when ctx ends.
func Dial(ctx context.Context, addr, from string) *Conn {
	dialer := net.Dialer{Timeout: Patience}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	c := &Conn{Conn: must.Have(dialer.DialContext(ctx, "tcp", addr)), Patience: Patience}
	c.In = bufio.NewReaderSize(c, 8<<10)
	c.stop = context.AfterFunc(ctx, c.reset)
	return c
}

func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.traffic.Add(int64(n))
	return n, err
}

func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.traffic.Add(int64(n))
	return n, err
}

// Traffic returns how many bytes were sent and received.
func (c *Conn) Traffic() int64 { return c.traffic.Load() }

// Close resets the connection, so that its port can be used again at once.
func (c *Conn) Close() {
	c.stop()
	c.reset()
}

func (c *Conn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // otherwise it ends a little later
	}
	_ = c.Conn.Close() // nothing is waited for
}

// Allow bounds how long everything takes that happens on the connection from now on. Zero
// lifts the bound.
func (c *Conn) Allow(limit time.Duration) {
	var until time.Time
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	_ = c.SetDeadline(until) // a connection that is closed fails later
}

// Answer is what was answered.
type Answer struct {
	Status  int
	Session string
	Events  bool      // it is an event stream
	Closing bool      // the connection ends with it
	Stream  io.Reader // the body; it is nil once it was read
	Body    []byte    // the beginning of it, valid until the next answer
	Size    int64     // of all of it

	length  int // -1: it is not said
	chunked bool
}

var code = regexp.MustCompile(`DB-[A-Z-]+`)

// Code returns the code of the gateway in what was kept of the body, "" if there is none.
func (a *Answer) Code() string { return string(code.Find(a.Body)) }

// Exchange sends a request and reads the answer to its end, of which it keeps so many
// bytes. A request may be answered before it was sent; then the answer counts.
func (c *Conn) Exchange(request []byte, keep int64) *Answer {
	c.Allow(c.Patience)
	_, sent := c.Write(request)
	a := c.Answer(keep)
	a.Closing = a.Closing || sent != nil
	return a
}

// Answer reads an answer to its end, of which it keeps so many bytes.
func (c *Conn) Answer(keep int64) *Answer {
	a := c.Head()
	c.Finish(a, keep)
	return a
}

// Begin sends a request and reads the head of the answer, as of a stream that has no end.
// It keeps the beginning of the body of a refusal.
func (c *Conn) Begin(request []byte) *Answer {
	c.Allow(c.Patience)
	defer c.Allow(0)
	must.Have(c.Write(request))
	a := c.Head()
	if a.Status != http.StatusOK {
		c.Finish(a, 1<<10)
	}
	return a
}

// Head reads the head of an answer.
func (c *Conn) Head() *Answer {
	line := must.Have(c.In.ReadSlice('\n'))
	must.Be(len(line) >= len("HTTP/1.1 200") && bytes.HasPrefix(line, []byte("HTTP/1.")),
		"not HTTP: %.80q", line)
	a := &Answer{length: -1, Closing: line[len("HTTP/1.")] == '0'}
	a.Status = must.Have(strconv.Atoi(string(line[9:12])))
	for {
		if line = must.Have(c.In.ReadSlice('\n')); len(line) <= 2 {
			break
		}
		if name, value, found := bytes.Cut(line, []byte(":")); found {
			a.read(name, bytes.TrimSpace(value))
		}
	}
	switch {
	case a.chunked:
		a.Stream = httputil.NewChunkedReader(c.In)
	case a.length < 0 && a.Status == http.StatusNoContent:
		a.Stream = http.NoBody
	case a.length >= 0:
		a.Stream = io.LimitReader(c.In, int64(a.length))
	default:
		a.Stream, a.Closing = c.In, true
	}
	return a
}

// read takes in one header. It compares lengths first, for it sees every header of every
// answer.
func (a *Answer) read(name, value []byte) {
	switch {
	case is(name, "Content-Length"):
		a.length = must.Have(strconv.Atoi(string(value)))
	case is(name, "Content-Type"):
		a.Events = bytes.HasPrefix(value, []byte("text/event-stream"))
	case is(name, "Transfer-Encoding"):
		a.chunked = is(value, "chunked")
	case is(name, "Connection"):
		a.Closing = a.Closing || is(value, "close")
	case is(name, mcp.HeaderSessionID):
		a.Session = string(value)
	}
}

func is(text []byte, word string) bool {
	return len(text) == len(word) && strings.EqualFold(string(text), word)
}

// Finish reads the body to its end and keeps so many bytes of it.
func (c *Conn) Finish(a *Answer, keep int64) {
	kept := bytes.NewBuffer(slices.Grow(c.body[:0], int(min(keep, int64(max(a.length, 0))+bytes.MinRead))))
	first := must.Have(kept.ReadFrom(io.LimitReader(a.Stream, keep)))
	rest := must.Have(io.Copy(io.Discard, a.Stream))
	if a.chunked {
		must.Have(c.In.ReadSlice('\n')) // the end of the last chunk; nobody sends trailers
	}
	c.body, a.Body, a.Stream, a.Size = kept.Bytes(), kept.Bytes(), nil, first+rest
	must.Be(a.Size >= int64(a.length), "%w", io.ErrUnexpectedEOF)
}

// LastEvent returns the data of the last event of a stream that has any: the response is
// the last message on the stream of its request.
func LastEvent(stream []byte) []byte {
	var last []byte
	for line := range bytes.Lines(stream) {
		if data, found := bytes.CutPrefix(line, []byte("data:")); found {
			if data = bytes.TrimSpace(data); len(data) > 0 {
				last = data
			}
		}
	}
	return last
}
