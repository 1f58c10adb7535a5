package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// target is one part to load: where it is and the requests that open a session and call the tool.
type target struct {
	name      string
	addr      string
	handshake bool // open a session first, as clients of the legacy era do
	tool      string
	token     string // "" sends none
	revision  string
	pids      []int // of the processes whose CPU counts; nil for none

	// What is not set is the plain case: a message to say again, and a client that can do nothing.
	arguments    string              // of the tool, as JSON
	meta         string              // a member of _meta, as JSON
	capabilities string              // that a session is opened with, as JSON
	want         string              // what the answer contains
	call         func(*caller) error // sends the request and reads the answer
}

const message = "The quick brown fox jumps over the lazy dog and says so"

// sample is what one run of one target showed.
type sample struct {
	calls   int
	bytes   int64 // of requests and answers with their heads
	took    time.Duration
	latency []time.Duration // of every call

	counted  bool // the fields below were counted
	cpu      time.Duration
	resident int64 // bytes, after the last call
}

// perSecond returns calls per second.
func (s *sample) perSecond() float64 { return float64(s.calls) / s.took.Seconds() }

// median returns the middle latency.
func (s *sample) median() time.Duration {
	slices.Sort(s.latency)
	return s.latency[len(s.latency)/2]
}

// load calls the tool over so many connections for so long. Every answer is checked; one wrong answer fails the run.
// What it costs to open connections and sessions does not count.
func (t *target) load(ctx context.Context, connections int, took time.Duration) (*sample, error) {
	callers := make([]*caller, connections)
	for i := range callers {
		c, err := t.connect(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		defer c.close()
		c.traffic.Store(0)
		callers[i] = c
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex // guards the fields below
		total  = &sample{}
		failed error
	)
	before, err := world.Busy(t.pids...)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	for _, c := range callers {
		wg.Go(func() {
			latency, err := c.callUntil(started.Add(took))
			mu.Lock()
			defer mu.Unlock()
			total.calls += len(latency)
			total.bytes += c.traffic.Load()
			total.latency = append(total.latency, latency...)
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	total.took = time.Since(started)
	if failed != nil {
		return nil, fmt.Errorf("%s: %w", t.name, failed)
	}
	return total, total.count(t.pids, before)
}

// count notes what the processes have cost since before, and what they hold.
func (s *sample) count(pids []int, before time.Duration) error {
	after, err := world.Busy(pids...)
	if err != nil {
		return err
	}
	s.counted, s.cpu = len(pids) > 0, after-before
	s.resident, err = world.Resident(pids...)
	return err
}

// caller is one connection with a session of its own. It speaks HTTP by hand, so that the load costs little beside
// what it measures.
type caller struct {
	target  *target
	conn    net.Conn
	in      *bufio.Reader
	session string // "" in the modern era
	request []byte
	id      []byte // its digits in request
	body    []byte
	traffic *atomic.Int64 // bytes that were sent and received
	aside   *caller       // a second connection of the session, for answers to questions; nil before the first
}

// meter is a connection that counts what is sent and received.
type meter struct {
	net.Conn
	traffic *atomic.Int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.traffic.Add(int64(n))
	return n, err
}

func (m *meter) Write(p []byte) (int, error) {
	n, err := m.Conn.Write(p)
	m.traffic.Add(int64(n))
	return n, err
}

// dial returns a connection without a session.
func (t *target) dial(ctx context.Context, traffic *atomic.Int64) (*caller, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, err
	}
	conn = &meter{Conn: conn, traffic: traffic}
	return &caller{target: t, conn: conn, in: bufio.NewReaderSize(conn, 8<<10), traffic: traffic}, nil
}

func (t *target) connect(ctx context.Context) (*caller, error) {
	c, err := t.dial(ctx, &atomic.Int64{})
	if err != nil {
		return nil, err
	}
	if t.handshake {
		if c.session, err = t.openSession(c); err != nil {
			c.close()
			return nil, err
		}
	}
	c.request = t.post(t.callBody(), "tools/call", c.session)
	at := bytes.Index(c.request, []byte(idMember+firstID)) + len(idMember)
	c.id = c.request[at : at+len(firstID)]
	return c, nil
}

// The ids of calls are higher than firstID, and have as many digits.
const (
	idMember = `"id":`
	firstID  = "100000000"
)

// ask sends the call under an id that no call of the session had: none may be used again.
// https://modelcontextprotocol.io/specification/2025-11-25/basic#requests
func (c *caller) ask() error {
	for i := len(c.id) - 1; i >= 0; i-- {
		if c.id[i]++; c.id[i] <= '9' {
			break
		}
		c.id[i] = '0'
	}
	_, err := c.conn.Write(c.request)
	return err
}

func (c *caller) close() {
	if c.aside != nil {
		c.aside.close()
	}
	_ = c.conn.Close() // nothing is sent any more
}

func (t *target) callBody() string {
	arguments, meta := t.arguments, t.meta
	if arguments == "" {
		arguments = `{"message":"` + message + `"}`
	}
	if !t.handshake {
		if meta != "" {
			meta += ","
		}
		meta += `"io.modelcontextprotocol/protocolVersion":"` + t.revision + `","io.modelcontextprotocol/clientCapabilities":{}`
	}
	params := `"name":"` + t.tool + `","arguments":` + arguments
	if meta != "" {
		params += `,"_meta":{` + meta + `}`
	}
	return `{"jsonrpc":"2.0",` + idMember + firstID + `,"method":"tools/call","params":{` + params + `}}`
}

func (t *target) openSession(c *caller) (string, error) {
	capabilities := t.capabilities
	if capabilities == "" {
		capabilities = "{}"
	}
	body := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + t.revision +
		`","capabilities":` + capabilities + `,"clientInfo":{"name":"bench","version":"1"}}}`
	if _, err := c.conn.Write(t.post(body, "initialize", "")); err != nil {
		return "", err
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("initialize: status %d: %s (%w)", response.StatusCode, text, err)
	}
	return response.Header.Get("Mcp-Session-Id"), nil
}

// post returns the bytes of one HTTP request.
func (t *target) post(body, method, session string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n", t.addr)
	fmt.Fprintf(&b, "MCP-Protocol-Version: %s\r\nContent-Length: %d\r\n", t.revision, len(body))
	if t.token != "" {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", t.token)
	}
	if session != "" {
		fmt.Fprintf(&b, "Mcp-Session-Id: %s\r\n", session)
	}
	if !t.handshake {
		fmt.Fprintf(&b, "Mcp-Method: %s\r\nMcp-Name: %s\r\n", method, t.tool)
	}
	b.WriteString("\r\n" + body)
	return b.Bytes()
}

// callUntil calls again and again until that time, once at least, and returns how long each call took.
func (c *caller) callUntil(end time.Time) ([]time.Duration, error) {
	call := c.target.call
	if call == nil {
		call = (*caller).plain
	}
	latency := make([]time.Duration, 0, 1<<16)
	for started := time.Now(); ; {
		if err := call(c); err != nil {
			return latency, err
		}
		now := time.Now()
		latency = append(latency, now.Sub(started))
		if now.After(end) {
			return latency, nil
		}
		started = now
	}
}

// plain calls the tool and takes an answer in one piece.
func (c *caller) plain() error {
	if err := c.ask(); err != nil {
		return err
	}
	return c.readAnswer()
}

// readAnswer reads one response with a Content-Length and checks that it is the tool's answer.
func (c *caller) readAnswer() error {
	status, err := c.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	ok := bytes.HasPrefix(status, []byte("HTTP/1.1 200"))
	length := -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if name, value, found := bytes.Cut(line, []byte(":")); found && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if length < 0 || length > 1<<20 {
		return errors.New("an answer without Content-Length")
	}
	c.body = slices.Grow(c.body[:0], length)[:length]
	if _, err := io.ReadFull(c.in, c.body); err != nil {
		return err
	}
	if !ok || !c.target.isAnswer(c.body) {
		return fmt.Errorf("a wrong answer: %.300s", c.body)
	}
	return nil
}

// isAnswer tells whether a response is what the tool should have said.
func (t *target) isAnswer(body []byte) bool {
	if t.want == "" {
		return bytes.Contains(body, []byte(message))
	}
	return bytes.Contains(body, []byte(t.want))
}
