package dial

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxSent is the largest body of a request, in bytes, that is written before the response
// is read. A server may refuse a larger body before it has read all of it. Whoever is
// still writing then does not see the refusal; only net/http, which reads at the same
// time, does.
const maxSent = 64 << 10

// transport is an http.RoundTripper. It sends plain requests over connections of its own:
//
//	RoundTrip ── not plain ──▶ net/http (TLS, but see secure.go; large or streamed bodies, upgrades)
//	    │ plain
//	    ▼
//	pool.take, or connect ──▶ conn.begin ──▶ conn.respond ──▶ body, read by the caller ──▶ conn.release
//	    ▲  ▲                  look, write, read                                             │      │
//	    │  └──── stale ────────────┘                                                        │      │
//	    └──────────── pool.put ◀──────────────────────────── all was read, nothing is left ─┘      └──▶ closed
//
// The goroutine that sends a request writes and reads by itself. net/http keeps two
// goroutines for every connection instead, and hands each request and response over to
// them; that time and memory is spared here.
//
// It never sends a request twice, not even if the connection turns out to be dead,
// because a tool call may have had its effect. So it looks whether an idle connection is
// alive before it uses one (step.go).
type transport struct {
	rest     *http.Transport // for requests that are not plain
	dialer   *dialer         // checks addresses; rest has the same
	idle     pool            // own connections
	canceler *canceler       // over the contexts of requests on own connections
	// as of NewPeers; nil: a host is an address
	find func(host string) (address string, secure *tls.Config, err error)

	versions sync.Map // of servers over TLS, by host, each an *atomic.Bool; see version
}

// newTransport returns a transport that connects with d.
func newTransport(d *dialer) *transport {
	return &transport{
		rest: newRest(d), dialer: d,
		idle:     pool{most: maxIdle, conns: map[origin][]*conn{}},
		canceler: newCanceler(),
	}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !plain(r) || r.URL.Scheme != "http" {
		response, err := t.rest.RoundTrip(r)
		if err == nil {
			t.learn(r.URL.Host, response)
		}
		return response, err
	}
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }() // a body in memory has nothing to fail with
	}
	response, err := t.roundTrip(r)
	return response, endedOr(r.Context(), err)
}

// CloseIdleConnections closes the connections that no request uses now. http.Client looks
// for a method of this name.
func (t *transport) CloseIdleConnections() {
	t.idle.drop(time.Now().Add(idleTimeout)) // none may be idle for longer
	t.rest.CloseIdleConnections()
}

// roundTrip sends a plain request. The end of the request's context closes the
// connection, until the response is read.
func (t *transport) roundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	var body []byte
	if hasBody(r) {
		body = make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return nil, err
		}
	}
	head := appendHead(make([]byte, 0, 512), r)
	m := message{head: head, method: r.Method, body: body}
	// Callers learn by the trace whether the server may have received the request: if
	// not, they may send it again.
	if trace := httptrace.ContextClientTrace(ctx); trace != nil {
		m.wrote = trace.WroteHeaders
	}
	c, _, err := t.begin(ctx, r.URL, &m)
	if err != nil {
		return nil, err
	}
	return c.respond(ctx, r)
}

// begin sends a request over an idle connection that is alive, or over a new one, and
// waits until the first bytes of the response have come. From then on the connection is
// the caller's, who releases it. sent tells, beside an error, whether the server may have
// received the request.
func (t *transport) begin(ctx context.Context, target *url.URL, m *message) (c *conn, sent bool, err error) {
	if err = ctx.Err(); err != nil {
		return nil, false, err
	}
	for {
		c = t.idle.take(origin{target.Scheme, target.Host})
		idle := c != nil
		if !idle {
			if c, err = t.connect(ctx, target); err != nil {
				return nil, false, err
			}
		}
		t.canceler.add(ctx, c)
		sent, err = c.begin(m, idle)
		if err == nil {
			return c, sent, nil
		}
		c.release(false)
		if err != errStale { //nolint:errorlint // begin returns this value
			return nil, sent, err
		}
	}
}

// endedOr returns err, or in its place that of ctx if it has ended: the end of the
// context cuts the connection, so whatever broke, this is why.
func endedOr(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// UsualPort returns the port of URLs that name none, "" if the scheme is not of HTTP.
func UsualPort(scheme string) string { return map[string]string{"http": "80", "https": "443"}[scheme] }

// connect opens a connection to the host of a URL.
func (t *transport) connect(ctx context.Context, target *url.URL) (*conn, error) {
	port := cmp.Or(target.Port(), UsualPort(target.Scheme))
	address, secure := net.JoinHostPort(target.Hostname(), port), t.rest.TLSClientConfig
	if t.find != nil {
		var err error
		if address, secure, err = t.find(target.Hostname()); err != nil {
			return nil, err
		}
		limited, stop := context.WithTimeout(ctx, connectTimeout)
		defer stop()
		ctx = limited
	}
	dialed, err := t.dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
			// The dialer has a timer of its own for the deadline of ctx. It may fire
			// before that of ctx, with another error.
			err = context.DeadlineExceeded
		}
		return nil, err
	}
	c := &conn{Conn: dialed, to: origin{target.Scheme, target.Host}, owner: t, life: idleTimeout}
	if target.Scheme == "https" {
		if err := c.secure(ctx, dialed, secure, target.Hostname()); err != nil {
			_ = dialed.Close() // the handshake failed, and says why
			return nil, err
		}
	}
	c.cut = func() { _ = c.bare().Close() } // whoever waits for the connection gets the error
	if raw, ok := dialed.(syscall.Conn); ok && canPeek {
		c.raw, _ = raw.SyscallConn()
		c.step = c.ask
	}
	return c, nil
}

// plain tells whether transport may send a request by itself. It may if its body is in
// memory and not large, and everything in it is a valid part of a request: nothing in it
// can begin a header or a request of its own. Methods and headers that lead to more than
// one response, or to something else than one, are not plain either. net/http sends all
// others, or refuses them if they are not valid.
func plain(r *http.Request) bool {
	u := r.URL
	if u == nil || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "" || !isHost(u.Host) ||
		r.Host != "" && !isHost(r.Host) || !isText(u.RawQuery) ||
		strings.ContainsAny(u.RawQuery, " \t") || r.Method != "" && !isToken(r.Method) ||
		r.Method == http.MethodConnect {
		return false
	}
	// A body in memory is known by GetBody, which http.NewRequest sets for the readers of
	// bytes and strings.
	if r.Close || r.Trailer != nil || r.TransferEncoding != nil || hasBody(r) &&
		(r.ContentLength <= 0 || r.ContentLength > maxSent || r.GetBody == nil) {
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

// hasBody tells whether r has a body. Requests without one have nil or http.NoBody.
func hasBody(r *http.Request) bool { return r.Body != nil && r.Body != http.NoBody }

// isHost tells whether s consists of what names, addresses and ports consist of. What is
// more unusual is left to net/http.
func isHost(s string) bool { return consistsOf(s, "-._:[]") }

// isToken tells whether s may be a method or the name of a header.
// https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2
func isToken(s string) bool { return consistsOf(s, namingMarks) }

// namingMarks are the characters of tokens besides letters and digits.
const namingMarks = "!#$%&'*+-.^_`|~"

// consistsOf tells whether s consists of ASCII letters, digits and marks. The empty text
// does not.
func consistsOf(s, marks string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') &&
			strings.IndexByte(marks, c) < 0 {
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
