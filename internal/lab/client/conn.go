// Package client is clients of MCP that write their requests by hand, so that they cost
// little beside what they measure, and can misbehave. It does not know what is asked, and
// judges no answer.
package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
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

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Patience is how long a client waits for one answer.
const Patience = 30 * time.Second

// Conn is one connection. It is for one goroutine at a time, but for Close and Traffic.
type Conn struct {
	net.Conn

	In      *bufio.Reader
	traffic atomic.Int64
	body    []byte      // of the last answer
	stop    func() bool // of what closes it when the context ends
}

// Dial connects from a loopback address of its own, such as "127.0.0.2", or from any when
// it is "". The connection is closed when ctx ends.
func Dial(ctx context.Context, addr, from string) (*Conn, error) {
	dialer := net.Dialer{Timeout: Patience}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: conn}
	c.In = bufio.NewReaderSize(c, 8<<10)
	c.stop = context.AfterFunc(ctx, c.reset)
	return c, nil
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
func (c *Conn) Exchange(request []byte, keep int64) (*Answer, error) {
	c.Allow(Patience)
	_, sent := c.Write(request)
	a, err := c.Answer(keep)
	if err != nil {
		return nil, errors.Join(sent, err)
	}
	a.Closing = a.Closing || sent != nil
	return a, nil
}

// Answer reads an answer to its end, of which it keeps so many bytes.
func (c *Conn) Answer(keep int64) (*Answer, error) {
	a, err := c.Head()
	if err != nil {
		return nil, err
	}
	return a, c.Finish(a, keep)
}

// Begin sends a request and reads the head of the answer, as of a stream that has no end.
// It keeps the beginning of the body of a refusal.
func (c *Conn) Begin(request []byte) (*Answer, error) {
	c.Allow(Patience)
	defer c.Allow(0)
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	a, err := c.Head()
	if err == nil && a.Status != http.StatusOK {
		err = c.Finish(a, 1<<10)
	}
	return a, err
}

// Head reads the head of an answer.
func (c *Conn) Head() (*Answer, error) {
	line, err := c.In.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.")) {
		return nil, fmt.Errorf("not HTTP: %.80q", line)
	}
	a := &Answer{length: -1, Closing: line[len("HTTP/1.")] == '0'}
	if a.Status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return nil, err
	}
	for {
		if line, err = c.In.ReadSlice('\n'); err != nil {
			return nil, err
		}
		if len(line) <= 2 {
			break
		}
		if name, value, found := bytes.Cut(line, []byte(":")); found {
			if err := a.read(name, bytes.TrimSpace(value)); err != nil {
				return nil, err
			}
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
	return a, nil
}

// read takes in one header. It compares lengths first, for it sees every header of every
// answer.
func (a *Answer) read(name, value []byte) (err error) {
	switch {
	case is(name, "Content-Length"):
		a.length, err = strconv.Atoi(string(value))
	case is(name, "Content-Type"):
		a.Events = bytes.HasPrefix(value, []byte("text/event-stream"))
	case is(name, "Transfer-Encoding"):
		a.chunked = is(value, "chunked")
	case is(name, "Connection"):
		a.Closing = a.Closing || is(value, "close")
	case is(name, mcp.HeaderSessionID):
		a.Session = string(value)
	}
	return err
}

func is(text []byte, word string) bool {
	return len(text) == len(word) && strings.EqualFold(string(text), word)
}

// Finish reads the body to its end and keeps so many bytes of it.
func (c *Conn) Finish(a *Answer, keep int64) error {
	kept := bytes.NewBuffer(slices.Grow(c.body[:0], int(min(keep, int64(max(a.length, 0))+bytes.MinRead))))
	first, err := kept.ReadFrom(io.LimitReader(a.Stream, keep))
	if err != nil {
		return err
	}
	rest, err := io.Copy(io.Discard, a.Stream)
	if a.chunked && err == nil {
		_, err = c.In.ReadSlice('\n') // the end of the last chunk; nobody sends trailers
	}
	c.body, a.Body, a.Stream, a.Size = kept.Bytes(), kept.Bytes(), nil, first+rest
	if err == nil && a.length > 0 && a.Size < int64(a.length) {
		err = io.ErrUnexpectedEOF
	}
	return err
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
