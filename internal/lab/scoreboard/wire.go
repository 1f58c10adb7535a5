package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long an answer may take. Nothing in the world takes long, so only what
// hangs reaches it.
const patience = 30 * time.Second

// request is one request over HTTP, as far as it differs from a good one.
type request struct {
	method, path, token, body string
	// name, value, name, value; a name that was there before is there twice then
	headers []string
	without string // a header that is left out
	host    string // "": the gateway's
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
	panics any // what the handler panicked with
	hung   bool
}

// capture is an http.ResponseWriter that keeps what is written. When the answer is a
// stream that has no end by itself, leave is called after its first event.
type capture struct {
	mu     sync.Mutex // guards the fields below
	status int
	header http.Header
	body   bytes.Buffer
	leave  func()
	told   chan struct{} // a value for each write; nil: nobody listens
}

func (c *capture) Header() http.Header { return c.header }

func (c *capture) WriteHeader(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = cmp.Or(c.status, status)
}

func (c *capture) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = cmp.Or(c.status, http.StatusOK)
	c.body.Write(data)
	if c.leave != nil && bytes.Contains(data, []byte("notifications/subscriptions/acknowledged")) {
		c.leave()
	}
	return len(data), nil
}

// Flush implements http.Flusher.
func (c *capture) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.told <- struct{}{}: // never where nobody listens
	default:
	}
}

// SetReadDeadline implements what http.ResponseController asks for: nothing here can be
// slow.
func (*capture) SetReadDeadline(time.Time) {}

// SetWriteDeadline implements what http.ResponseController asks for.
func (*capture) SetWriteDeadline(time.Time) {}

// EnableFullDuplex implements what http.ResponseController asks for.
func (*capture) EnableFullDuplex() {}

// event takes the first event out of what was written, if a whole one is there.
func (c *capture) event() (text string, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := bytes.Index(c.body.Bytes(), []byte("\n\n"))
	if end < 0 {
		return "", false
	}
	return strings.TrimSuffix(string(c.body.Next(end+2)), "\n\n"), true
}

func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.body.String()
}

// send lets the door answer, as the server of package http would. A GET of a stream is
// left once it is open.
func (w *world) send(m *request) (a answer) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c := &capture{header: make(http.Header), leave: cancel}
	r := m.of(ctx)
	if m.method == http.MethodGet {
		leaving, leave := context.WithCancel(ctx)
		leave() // a stream says nothing that is not asked for
		r = r.WithContext(leaving)
	}
	defer func() {
		a.panics = recover()
		a.status, a.header, a.body = c.status, c.header, c.text()
		a.hung = errors.Is(ctx.Err(), context.DeadlineExceeded)
	}()
	w.ServeHTTP(c, r)
	return a
}

var requests atomic.Uint32

// somewhere returns an address that no request of late came from: who is refused often
// from one address is made to wait.
func somewhere() string {
	var address [4]byte
	binary.BigEndian.PutUint32(address[:], 10<<24|requests.Add(1)&0xffffff)
	return netip.AddrPortFrom(netip.AddrFrom4(address), 1234).String()
}

// of makes the request as the server of package http hands it over.
func (m *request) of(ctx context.Context) *http.Request {
	r := httptest.NewRequestWithContext(ctx, m.method, m.path, strings.NewReader(m.body))
	r.Host, r.RemoteAddr = cmp.Or(m.host, "mcp.test"), somewhere()
	r.Header.Set("Accept", "application/json, text/event-stream")
	if m.token != "" {
		r.Header.Set("Authorization", "Bearer "+m.token)
	}
	if m.method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(m.headers); i += 2 {
		r.Header.Add(m.headers[i], m.headers[i+1])
	}
	if m.without != "" {
		r.Header.Del(m.without)
	}
	return r
}
