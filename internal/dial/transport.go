package dial

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// maxSent is the largest body of a request, in bytes, that is written before the response is read. A server may refuse a
// larger one before it has read it, which only who reads at the same time learns.
const maxSent = 64 << 10

// transport sends plain requests over connections of its own: whoever sends a request writes and reads by itself, which
// spares the two goroutines that net/http keeps for every connection and the hand-overs to them. It repeats no request.
// All other requests, those over TLS among them, it leaves to net/http.
type transport struct {
	rest   *http.Transport
	dialer *net.Dialer
	idle   pool
}

func newTransport(d *net.Dialer) *transport {
	return &transport{rest: newRest(d), dialer: d, idle: pool{most: maxIdle, conns: make(map[string][]*conn)}}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !plain(r) {
		return t.rest.RoundTrip(r)
	}
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }() // it lies in memory
	}
	response, err := t.roundTrip(r)
	if err != nil && r.Context().Err() != nil {
		err = r.Context().Err() // which is why, whatever broke first
	}
	return response, err
}

// CloseIdleConnections closes the connections that no request uses now.
func (t *transport) CloseIdleConnections() {
	t.idle.drop(time.Now())
	t.rest.CloseIdleConnections()
}

func (t *transport) roundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := t.idle.take(r.URL.Host)
	if c == nil {
		var err error
		if c, err = t.connect(ctx, r.URL); err != nil {
			return nil, err
		}
	}
	c.detach = context.AfterFunc(ctx, c.cut)
	response, keep, err := c.exchange(r)
	if err != nil {
		c.release(false)
		return nil, err
	}
	if response.Body == http.NoBody {
		c.release(keep)
		return response, nil
	}
	response.Body = &body{in: response.Body, conn: c, request: r, keep: keep}
	return response, nil
}

func (t *transport) connect(ctx context.Context, target *url.URL) (*conn, error) {
	port := target.Port()
	if port == "" {
		port = "80"
	}
	dialed, err := t.dialer.DialContext(ctx, "tcp", net.JoinHostPort(target.Hostname(), port))
	if err != nil {
		if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
			err = context.DeadlineExceeded // the dialer has a clock of its own, which may be ahead of the context's
		}
		return nil, err
	}
	c := &conn{Conn: dialed, host: target.Host, home: &t.idle}
	c.cut = func() { _ = dialed.Close() } // whoever waits for it learns of it
	c.in = bufio.NewReader(c)
	if raw, ok := dialed.(syscall.Conn); ok {
		c.raw, _ = raw.SyscallConn() // without it, it is used once
	}
	return c, nil
}

// plain tells whether a request is all usual: unencrypted, its body in memory and not large, and nothing in it
// that is not a valid part of a request or that asks for more than one response. What is not valid net/http refuses.
func plain(r *http.Request) bool {
	u := r.URL
	if u == nil || u.Scheme != "http" || u.Opaque != "" || !isHost(u.Host) || r.Host != "" && !isHost(r.Host) || !isText(u.RawQuery) ||
		strings.ContainsAny(u.RawQuery, " \t") || r.Method != "" && !isToken(r.Method) || r.Method == http.MethodConnect {
		return false
	}
	if r.Close || r.Trailer != nil || r.TransferEncoding != nil || hasBody(r) && (r.ContentLength <= 0 || r.ContentLength > maxSent || r.GetBody == nil) {
		return false
	}
	for name, values := range r.Header {
		if !isToken(name) {
			return false
		}
		switch http.CanonicalHeaderKey(name) {
		case "Connection", "Expect", "Upgrade":
			return false
		}
		for _, value := range values {
			if !isText(value) {
				return false
			}
		}
	}
	return true
}

func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// isHost tells whether s is a usual name or address, with or without a port.
func isHost(s string) bool { return consistsOf(s, "-._:[]") }

// isToken tells whether s may be a method or the name of a header.
// https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2
func isToken(s string) bool { return consistsOf(s, "!#$%&'*+-.^_`|~") }

func consistsOf(s, marks string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte(marks, c) < 0 {
			return false
		}
	}
	return s != ""
}

// isText tells whether s may be the value of a header.
// https://www.rfc-editor.org/rfc/rfc9110#section-5.5
func isText(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7F {
			return false
		}
	}
	return true
}
