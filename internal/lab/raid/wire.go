package raid

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

// The revisions that attackers speak.
const (
	Modern = "2026-07-28"
	Legacy = "2025-11-25"
)

const (
	// patience is how long a client waits for one answer.
	patience = 30 * time.Second
)

// Wire is one connection of a client that writes its requests by hand, so that it costs little and can misbehave.
type Wire struct {
	conn net.Conn
	in   *bufio.Reader
	stop func() bool // of what closes it when the context ends
}

// Dial connects from a loopback address of its own, such as "127.0.0.2", or from any when it is "". The connection is
// closed when ctx ends.
func Dial(ctx context.Context, addr, from string) (*Wire, error) {
	dialer := net.Dialer{Timeout: patience}
	if from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	w := &Wire{conn: conn, in: bufio.NewReaderSize(conn, 4<<10)}
	w.stop = context.AfterFunc(ctx, w.reset)
	return w, nil
}

// Close resets the connection, so that its port can be used again at once.
func (w *Wire) Close() {
	w.stop()
	w.reset()
}

func (w *Wire) reset() {
	if tcp, ok := w.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // otherwise it ends a little later
	}
	_ = w.conn.Close() // nothing is waited for
}

// Reply is what was answered.
type Reply struct {
	Status  int
	Session string
	Head    []byte // the first bytes of the body
	Size    int64  // of the body
	Closing bool   // the server closes the connection
}

// Exchange sends a request and reads the answer to its end. A request may be answered before it was sent; then the
// answer counts.
func (w *Wire) Exchange(request []byte) (*Reply, error) {
	_ = w.conn.SetDeadline(time.Now().Add(patience)) // a connection that is closed fails below
	_, sent := w.conn.Write(request)
	r, err := w.answer()
	if err != nil {
		return nil, errors.Join(sent, err)
	}
	r.Closing = r.Closing || sent != nil
	return r, nil
}

// answer reads one answer to its end.
func (w *Wire) answer() (*Reply, error) {
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
	return &Reply{
		Status: response.StatusCode, Session: response.Header.Get("Mcp-Session-Id"),
		Head: head.Bytes(), Size: first + rest, Closing: response.Close,
	}, err
}

// Request is one request to an endpoint, in the words of one revision.
type Request struct {
	Addr      string
	Method    string // of HTTP; "" is POST
	Token     string // "" sends none
	Revision  string
	Session   string
	LastEvent string // the id of the event after which a stream is to go on; "" is none
	RPC       string // the method of the message
	Tool      string // for tools/call
	Accept    string // "" names JSON, then event streams
	Body      string
	Announce  int // the Content-Length if it is not that of the body; negative: the body is chunked, and Body is its start
}

// Bytes returns the request as it goes over the wire.
func (r Request) Bytes() []byte {
	var b bytes.Buffer
	method, accept := r.Method, r.Accept
	if method == "" {
		method = http.MethodPost
	}
	if accept == "" {
		accept = "application/json, text/event-stream"
	}
	fmt.Fprintf(&b, "%s /mcp HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nMCP-Protocol-Version: %s\r\n", method, r.Addr, accept, r.Revision)
	for _, h := range [][2]string{{"Authorization", "Bearer " + r.Token}, {"Mcp-Session-Id", r.Session}, {"Last-Event-ID", r.LastEvent}} {
		if h[1] != "" && h[1] != "Bearer " {
			fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
		}
	}
	if r.Revision == Modern && r.RPC != "" {
		fmt.Fprintf(&b, "Mcp-Method: %s\r\n", r.RPC)
		if r.Tool != "" {
			fmt.Fprintf(&b, "Mcp-Name: %s\r\n", r.Tool)
		}
	}
	switch {
	case r.Announce < 0:
		fmt.Fprintf(&b, "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(r.Body), r.Body)
	case r.Body != "":
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", max(r.Announce, len(r.Body)), r.Body)
	default:
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

// Message returns the body of a request with these members of params, without their braces.
func Message(rpc, params, revision string, progress bool) string {
	meta := ""
	if revision == Modern {
		meta = `"io.modelcontextprotocol/protocolVersion":"` + Modern + `","io.modelcontextprotocol/clientCapabilities":{}`
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
func (w *Wire) header(request []byte) (*Reply, error) {
	_ = w.conn.SetDeadline(time.Now().Add(patience)) // a connection that is closed fails below
	if _, err := w.conn.Write(request); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(w.in, nil) //nolint:bodyclose // the body is what stays open, until close
	if err != nil {
		return nil, err
	}
	var head bytes.Buffer
	if response.StatusCode != http.StatusOK {
		_, _ = io.CopyN(&head, response.Body, 1<<10) // what there is tells why
	}
	_ = w.conn.SetDeadline(time.Time{}) // as above
	return &Reply{Status: response.StatusCode, Head: head.Bytes()}, nil
}
