package dial

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
)

// Own connections over TLS carry what goes to other processes of this gateway (Peers).
// Else they carry what was prepared (Post), and only to servers with which net/http has
// agreed on HTTP/1.1: it costs about a third less then. Nothing is lost by that. With a
// server of HTTP/2 net/http goes on to share one connection among many requests, which
// matters where hundreds of calls wait at the same time. So the first request to a server
// always goes by net/http, and its response shows which of the two it is.

// errHandshake is the error for a server that lets the handshake of TLS wait.
var errHandshake = errors.New("TLS handshake took too long")

// version returns whether net/http speaks HTTP/1.1 with a server over TLS, as far as is
// known, for learn to keep.
func (t *transport) version(host string) *atomic.Bool {
	old, _ := t.versions.LoadOrStore(host, new(atomic.Bool))
	return old.(*atomic.Bool)
}

// learn notes what a response of net/http shows, if a Post was made for its server.
func (t *transport) learn(host string, response *http.Response) {
	if old, known := t.versions.Load(host); known && response.TLS != nil {
		old.(*atomic.Bool).Store(response.ProtoMajor == 1 && response.TLS.NegotiatedProtocol != "h2")
	}
}

// secure does the handshake on a new connection. cfg is that of net/http, so the server
// is verified in the same way, or what NewPeers was told for the host. name is that of
// the server if cfg has none.
func (c *conn) secure(ctx context.Context, dialed net.Conn, cfg *tls.Config, name string) error {
	limited, cancel := context.WithTimeoutCause(ctx, handshakeTimeout, errHandshake)
	defer cancel()
	cfg = cfg.Clone()
	cfg.ServerName = cmp.Or(cfg.ServerName, name)
	if c.owner.find == nil { // net/http has added HTTP/2 to its own
		cfg.NextProtos = []string{"http/1.1"}
	}
	c.under = &records{Conn: dialed}
	secured := tls.Client(c.under, cfg)
	c.Conn = secured
	err := secured.HandshakeContext(limited)
	if err != nil && limited.Err() != nil {
		err = context.Cause(limited)
	}
	return err
}

// bare returns the connection without TLS, for closing. TLS would first send an alert,
// and wait up to 5 s for a server that reads nothing, beyond the end of the request.
func (c *conn) bare() net.Conn {
	if c.under == nil {
		return c.Conn
	}
	return c.under
}

// records is the connection under one of TLS. It knows whether what TLS has read ends
// with a record, and can keep TLS from reading more: so it can be found out whether TLS
// has something that nobody asked for.
type records struct {
	net.Conn
	header  []byte // of the record that is being read, as far as it has come; it has headerSize bytes
	left    int    // bytes of the record that are to come behind its header
	stopped bool   // Read fails, and reads nothing
}

// headerSize is the size of the header of a record, which ends with the length of the
// rest.
// https://www.rfc-editor.org/rfc/rfc8446#section-5.1
const headerSize = 5

// Read implements io.Reader.
func (r *records) Read(p []byte) (int, error) {
	if r.stopped {
		return 0, os.ErrDeadlineExceeded // which does not end the TLS connection
	}
	n, err := r.Conn.Read(p)
	r.follow(p[:n])
	return n, err
}

// follow notes where in a record the bytes end.
func (r *records) follow(data []byte) {
	for len(data) > 0 {
		if r.left > 0 {
			n := min(r.left, len(data))
			r.left, data = r.left-n, data[n:]
			continue
		}
		n := min(headerSize-len(r.header), len(data))
		r.header, data = append(r.header, data[:n]...), data[n:]
		if len(r.header) == headerSize {
			r.left = int(r.header[3])<<8 | int(r.header[4])
			r.header = r.header[:0]
		}
	}
}

// clean tells whether TLS has used all that it has read. It asks for a byte, and lets it
// read nothing for that.
func (c *conn) clean() bool {
	if c.under == nil {
		return true
	}
	if c.under.left > 0 || len(c.under.header) > 0 {
		return false
	}
	c.under.stopped = true
	n, err := c.Conn.Read(c.memory[:1])
	c.under.stopped = false
	return n == 0 && err == os.ErrDeadlineExceeded //nolint:errorlint // records returns this value
}
