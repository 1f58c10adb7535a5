package redis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
)

// link is one client of the library with its connections. A link that does not get well
// again is replaced by another, which asks for names, passwords, masters and slots anew:
// whatever the library does not notice, it heals.
type link struct {
	client rueidis.Client
	made   time.Time
	life   context.Context                 //nolint:containedctx // of all connections, and of attempts to connect
	end    context.CancelFunc              // ends life
	shared atomic.Pointer[context.Context] // of the calls that began last; see patient
}

// close ends the connections first, so that the library has nothing to wait for.
func (l *link) close() {
	l.end()
	l.client.Close()
}

// newLink connects. It returns when that is done, or has failed, or ctx ends.
func (s *Store) newLink(ctx context.Context) (*link, error) {
	o, err := s.options()
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(ctx)
	o.DialCtxFn = func(ctx context.Context, address string, _ *net.Dialer, secure *tls.Config) (net.Conn,
		error,
	) {
		return s.connect(ctx, life, address, secure)
	}
	client, err := rueidis.NewClient(o)
	if err != nil {
		end()
		if client != nil {
			client.Close()
		}
		return nil, err
	}
	return &link{client: client, made: time.Now(), life: life, end: end}, nil
}

// options returns what the library needs to know. It never repeats a command by itself:
// whoever asked does not know whether it was done, and only it knows whether to ask
// again. It always pipelines: without that, a command that is alone sets its own deadline
// on the connection, and takes the connection down with it. There is one connection to a
// server for all but blocking reads: a probe on one of several would say nothing of the
// others.
func (s *Store) options() (rueidis.ClientOption, error) {
	c := s.config
	o := rueidis.ClientOption{
		InitAddress: c.Addresses, Username: c.User, SelectDB: c.Database, TLSConfig: c.TLS,
		ClientName: "drawbridge", ConnWriteTimeout: 5 * time.Second, DisableCache: true, DisableRetry: true,
		AlwaysPipelining:  true,
		PipelineMultiplex: -1, ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
		ForceSingleClient: !c.Cluster && c.Master == "",
	}
	var err error
	if o.Password, err = read(c.Password); err != nil {
		return o, err
	}
	if c.Master != "" {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: c.Master, TLSConfig: c.TLS, Username: c.SentinelUser,
			ClientName: o.ClientName, TopologyRefreshInterval: 5 * time.Second,
		}
		if o.Sentinel.Password, err = read(c.SentinelPassword); err != nil {
			return o, err
		}
	}
	return o, nil
}

// read asks for a password.
func read(password func() (string, error)) (string, error) {
	if password == nil {
		return "", nil
	}
	text, err := password()
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return text, nil
}

// connect opens a connection for the library, that ends with life at the latest.
func (s *Store) connect(ctx, life context.Context, address string, secure *tls.Config) (net.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, connectTimeout)
	defer stop()
	defer context.AfterFunc(life, stop)()
	plain, err := dial.Connect(ctx, address, secure)
	if err != nil {
		return nil, err
	}
	if host, _, err := net.SplitHostPort(plain.LocalAddr().String()); err == nil {
		s.localHost.Store(&host)
	}
	c := &connection{Conn: plain, broken: s.broken}
	c.forget = context.AfterFunc(life, func() {
		c.closed.Store(true)
		_ = plain.Close()
	})
	return c, nil
}

// LocalHost returns the address that this process has on its newest connection to the
// server, without a port: others that use the server can reach it there. The error is
// ErrDown until there was a connection.
func (s *Store) LocalHost() (string, error) {
	if host := s.localHost.Load(); host != nil {
		return *host, nil
	}
	return "", ErrDown
}

// connection tells when the other side ends it. Whoever is behind the next connection may
// have forgotten everything, so nothing is asked before a probe has looked.
type connection struct {
	net.Conn
	broken func(error)
	forget func() bool // that life ends it
	closed atomic.Bool // by this side
}

// Read implements net.Conn.
func (c *connection) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && c.closed.CompareAndSwap(false, true) {
		c.broken(err)
		c.forget()
	}
	return n, err
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.closed.Store(true)
	c.forget()
	return c.Conn.Close()
}
