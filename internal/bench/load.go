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
	"time"
)

// target is one part to load: where it is and the requests that open a session and call the tool.
type target struct {
	name      string
	addr      string
	handshake bool // open a session first, as clients of the legacy era do
	tool      string
	token     string // "" sends none
	revision  string
}

const message = "The quick brown fox jumps over the lazy dog and says so"

// sample is what one run of one target showed.
type sample struct {
	calls   int
	took    time.Duration
	latency []time.Duration // of every call
}

// perSecond returns calls per second.
func (s *sample) perSecond() float64 { return float64(s.calls) / s.took.Seconds() }

// median returns the middle latency.
func (s *sample) median() time.Duration {
	slices.Sort(s.latency)
	return s.latency[len(s.latency)/2]
}

// load calls the tool over so many connections for so long. Every answer is checked; one wrong answer fails the run.
func (t *target) load(ctx context.Context, connections int, took time.Duration) (*sample, error) {
	callers := make([]*caller, connections)
	for i := range callers {
		c, err := t.connect(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		defer c.close()
		callers[i] = c
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex // guards the fields below
		total  = &sample{}
		failed error
	)
	started := time.Now()
	for _, c := range callers {
		wg.Go(func() {
			latency, err := c.callUntil(started.Add(took))
			mu.Lock()
			defer mu.Unlock()
			total.calls += len(latency)
			total.latency = append(total.latency, latency...)
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	total.took = time.Since(started)
	if failed != nil {
		return nil, fmt.Errorf("%s: %w", t.name, failed)
	}
	return total, nil
}

// caller is one connection with a session of its own. It speaks HTTP by hand, so that the load costs little beside
// what it measures.
type caller struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte
	body    []byte
}

func (t *target) connect(ctx context.Context) (*caller, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, err
	}
	c := &caller{conn: conn, in: bufio.NewReaderSize(conn, 8<<10)}
	session := ""
	if t.handshake {
		if session, err = t.openSession(c); err != nil {
			c.close()
			return nil, err
		}
	}
	c.request = t.post(t.callBody(), "tools/call", session)
	return c, nil
}

func (c *caller) close() { _ = c.conn.Close() }

func (t *target) callBody() string {
	params := `"name":"` + t.tool + `","arguments":{"message":"` + message + `"}`
	if !t.handshake {
		params += `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + t.revision + `","io.modelcontextprotocol/clientCapabilities":{}}`
	}
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + `}}`
}

func (t *target) openSession(c *caller) (string, error) {
	body := `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + t.revision +
		`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
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

func (c *caller) callUntil(end time.Time) ([]time.Duration, error) {
	latency := make([]time.Duration, 0, 1<<16)
	for {
		started := time.Now()
		if started.After(end) {
			return latency, nil
		}
		if _, err := c.conn.Write(c.request); err != nil {
			return latency, err
		}
		if err := c.readAnswer(); err != nil {
			return latency, err
		}
		latency = append(latency, time.Since(started))
	}
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
	if !ok || !bytes.Contains(c.body, []byte(message)) {
		return fmt.Errorf("a wrong answer: %.300s", c.body)
	}
	return nil
}
