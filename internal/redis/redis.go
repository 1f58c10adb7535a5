// Package redis answers: what do the replicas of this gateway share? It is the one door to the server, Redis or Valkey,
// that keeps what any replica must be able to read: counts of limits, events of streams, and word from one replica to
// another. It knows how to reach that server, how long an answer may take, and when to stop asking; it deliberately does
// not know what is kept there or what it is good for.
//
//	a package that shares something ──▶ Store.Do, Store.DoAll, Script.Run ──▶ breaker ──▶ client ──▶ server
//	                                                                             ▲
//	                                           Store.Run: connects, probes ──────┘
//
// No call waits longer than Config.Patience. The first that gets no answer in that time opens the breaker, and from then
// on every call fails at once with ErrDown, until a probe finds the server well again. So a slow server costs each caller
// that patience once.
//
// Redis is not where anything lives that must not be lost: whoever uses this package says what holds when the server is
// gone, or has forgotten. Values that a replica reads back were sealed by one (package seal), so that whoever can write to
// the server can make the gateway forget, but not believe.
//
// It is the only package that imports github.com/redis/rueidis.
package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
)

// ErrDown is wrapped in every error that says that the server did not do what it was asked to, because it could not be
// reached, was too slow, or refused. What was asked may have been done all the same.
var ErrDown = errors.New("redis does not answer")

// Config of a Store. Only Addresses must be set.
type Config struct {
	Addresses []string    // host:port; of sentinels if Master is set, of some nodes of a cluster if Cluster is
	Master    string      // name of the master that the sentinels watch; empty: there are none
	Cluster   bool        // the addresses are nodes of a cluster
	User      string      // of the ACL; empty: default
	Password  string      // empty: none
	Database  int         // must be 0 in a cluster
	TLS       *tls.Config // nil: without TLS
	// Patience is how long a call waits for its answer. Zero: 100 ms.
	Patience time.Duration
	Logger   *slog.Logger // nil: none
}

// How often the server is asked whether it is well, and how long a connection may take.
const (
	defaultPatience = 100 * time.Millisecond
	probeInterval   = time.Second            // while it is
	retryInterval   = 250 * time.Millisecond // while it is not
	connectTimeout  = 2 * time.Second
)

// Store is a connection to the server. It is safe for concurrent use.
type Store struct {
	config  Config
	client  atomic.Pointer[rueidis.Client] // nil: not connected yet
	breaker breaker
}

// New returns a Store that is not connected: Run connects it. Until then every call fails with ErrDown.
func New(cfg Config) *Store {
	if cfg.Patience <= 0 {
		cfg.Patience = defaultPatience
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Store{config: cfg}
}

// Run connects, and asks the server now and then whether it is well, until ctx ends. A server that cannot be reached is
// no error: it is tried again.
func (s *Store) Run(ctx context.Context) error {
	defer s.close()
	for {
		err := s.probe(ctx)
		if ctx.Err() != nil {
			return nil
		}
		s.breaker.set(err)
		wait := probeInterval
		if err != nil {
			wait = retryInterval
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// Up tells whether calls are made, and if not, why. It waits for nothing.
func (s *Store) Up() error { return s.breaker.problem() }

// probe connects if that was not done yet, and asks the server whether it takes writes.
func (s *Store) probe(ctx context.Context) error {
	if s.client.Load() == nil {
		client, err := rueidis.NewClient(s.options())
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDown, err)
		}
		s.client.Store(&client)
	}
	_, err := s.do(ctx, Command{Name: "SET", Key: probeKey, Args: []string{"1", "PX", "60000"}})
	return err
}

// options returns what the library needs to know. It never repeats a command by itself: whoever asked does not know
// whether it was done, and only it knows whether to ask again.
func (s *Store) options() rueidis.ClientOption {
	c := s.config
	o := rueidis.ClientOption{
		InitAddress: c.Addresses, Username: c.User, Password: c.Password, SelectDB: c.Database, TLSConfig: c.TLS,
		DialCtxFn: connect, ClientName: "drawbridge", ConnWriteTimeout: 5 * time.Second, DisableCache: true, DisableRetry: true,
		ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
		ForceSingleClient: !c.Cluster && c.Master == "",
	}
	if c.Master != "" {
		o.Sentinel = rueidis.SentinelOption{MasterSet: c.Master, TLSConfig: c.TLS, Username: c.User, Password: c.Password, ClientName: o.ClientName}
	}
	return o
}

// connect opens a connection for the library.
func connect(ctx context.Context, address string, _ *net.Dialer, secure *tls.Config) (net.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, connectTimeout)
	defer stop()
	return dial.Connect(ctx, address, secure)
}

func (s *Store) close() {
	if client := s.client.Swap(nil); client != nil {
		(*client).Close()
	}
	s.breaker.set(errStopped)
}
