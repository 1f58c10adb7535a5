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
	"time"
)

const (
	modern = "2026-07-28"
	legacy = "2025-11-25"

	// patience is how long a client waits for one answer.
	patience = 30 * time.Second
)

// wire is one connection of a client that writes its requests by hand, so that it costs little and can misbehave.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	stop func() bool // of what closes it when the context ends
}

// dial connects from a loopback address of its own, such as "127.0.0.2", or from any when it is "". The connection is
// closed when ctx ends.
func dial(ctx context.Context, addr, from string) (*wire, error) {
	dialer := net.Dialer{Timeout: patience}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	w := &wire{conn: conn, in: bufio.NewReaderSize(conn, 4<<10)}
	w.stop = context.AfterFunc(ctx, func() { _ = conn.Close() }) // nothing is waited for
	return w, nil
}

// close resets the connection, so that its port can be used again at once.
func (w *wire) close() {
	w.stop()
	if tcp, ok := w.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // otherwise it ends a little later
	}
	_ = w.conn.Close() // nothing is waited for
}

// reply is what was answered.
type reply struct {
	status  int
	session string
	head    []byte // the first bytes of the body
	size    int64  // of the body
	closing bool   // the server closes the connection
}

// exchange sends a request and reads the answer to its end. A request may be answered before it was sent; then the
// answer counts.
func (w *wire) exchange(request []byte) (*reply, error) {
	_ = w.conn.SetDeadline(time.Now().Add(patience)) // a connection that is closed fails below
	_, sent := w.conn.Write(request)
	r, err := w.answer()
	if err != nil {
		return nil, errors.Join(sent, err)
	}
	r.closing = r.closing || sent != nil
	return r, nil
}

// answer reads one answer to its end.
func (w *wire) answer() (*reply, error) {
	response, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read to its end, or the connection is of no more use
	var head bytes.Buffer
	first, err := io.CopyN(&head, response.Body, 1<<10)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	var rest int64
	if err == nil {
		rest, err = io.Copy(io.Discard, response.Body)
	}
	return &reply{
		status: response.StatusCode, session: response.Header.Get("Mcp-Session-Id"),
		head: head.Bytes(), size: first + rest, closing: response.Close,
	}, err
}

// request is one request to an endpoint, in the words of one revision.
type request struct {
	addr     string
	method   string // of HTTP; "" is POST
	token    string // "" sends none
	revision string
	session  string
	rpc      string // the method of the message
	tool     string // for tools/call
	accept   string // "" names JSON, then event streams
	body     string
	announce int // the Content-Length if it is not that of the body; negative: the body is chunked, and body is its start
}

// bytes returns the request as it goes over the wire.
func (r request) bytes() []byte {
	var b bytes.Buffer
	method, accept := r.method, r.accept
	if method == "" {
		method = http.MethodPost
	}
	if accept == "" {
		accept = "application/json, text/event-stream"
	}
	fmt.Fprintf(&b, "%s /mcp HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nMCP-Protocol-Version: %s\r\n", method, r.addr, accept, r.revision)
	for _, h := range [][2]string{{"Authorization", "Bearer " + r.token}, {"Mcp-Session-Id", r.session}} {
		if h[1] != "" && h[1] != "Bearer " {
			fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
		}
	}
	if r.revision == modern && r.rpc != "" {
		fmt.Fprintf(&b, "Mcp-Method: %s\r\n", r.rpc)
		if r.tool != "" {
			fmt.Fprintf(&b, "Mcp-Name: %s\r\n", r.tool)
		}
	}
	switch {
	case r.announce < 0:
		fmt.Fprintf(&b, "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(r.body), r.body)
	case r.body != "":
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", max(r.announce, len(r.body)), r.body)
	default:
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

// message returns the body of a request with these members of params, without their braces.
func message(rpc, params, revision string, progress bool) string {
	meta := ""
	if revision == modern {
		meta = `"io.modelcontextprotocol/protocolVersion":"` + modern + `","io.modelcontextprotocol/clientCapabilities":{}`
	}
	if progress {
		if meta != "" {
			meta += ","
		}
		meta += `"progressToken":"p"`
	}
	if meta != "" {
		meta = `"_meta":{` + meta + `}`
		if params != "" {
			meta += ","
		}
	}
	return `{"jsonrpc":"2.0","id":1,"method":"` + rpc + `","params":{` + meta + params + `}}`
}

// header sends a request and reads the answer up to its body, as of a stream that has no end.
func (w *wire) header(request []byte) (*reply, error) {
	_ = w.conn.SetDeadline(time.Now().Add(patience)) // a connection that is closed fails below
	if _, err := w.conn.Write(request); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(w.in, nil) //nolint:bodyclose // the body is what stays open, until close
	if err != nil {
		return nil, err
	}
	_ = w.conn.SetDeadline(time.Time{}) // as above
	return &reply{status: response.StatusCode}, nil
}
