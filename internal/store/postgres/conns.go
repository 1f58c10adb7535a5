package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/drawbridge-mcp/drawbridge/internal/pgdial"
)

const (
	mostConns   = 4               // of one replica; each is a process at the server
	opTime      = 5 * time.Second // of one operation, with the wait for a connection
	connectTime = 2 * time.Second // of opening a connection
	downTime    = time.Second     // after a connection could not be opened, none is tried
	idleTime    = time.Second     // a connection that nobody used for longer is tried before it is used
	maxMessage  = 1 << 20         // of the server, in bytes; a row is far smaller
	attempts    = 3               // of what the server ended in favour of another transaction
)

// Errors of what cannot be done now.
var (
	errClosed = errors.New("the store is closed")
	errSlow   = errors.New("the database did not answer in time")
)

// conns are the connections of a store.
type conns struct {
	file     string
	free     chan conn     // that are open
	unopened chan struct{} // has a value for each that may be opened
	closed   chan struct{}
	down     atomic.Pointer[downtime]
	migrated atomic.Bool // by this process, or found to be
}

// conn is a connection that nobody uses.
type conn struct {
	*pgconn.PgConn
	used time.Time
}

// downtime is why no connection is tried for a while.
type downtime struct {
	until time.Time
	err   error
}

func newConns(file string) *conns {
	p := &conns{
		file: file, free: make(chan conn, mostConns), unopened: make(chan struct{}, mostConns),
		closed: make(chan struct{}),
	}
	for range mostConns {
		p.unopened <- struct{}{}
	}
	return p
}

// close closes the connections when nobody uses them any more. It is called once.
func (p *conns) close() error {
	close(p.closed)
	ctx, stop := context.WithTimeout(context.Background(), opTime)
	defer stop()
	for range mostConns {
		select {
		case c := <-p.free:
			_ = c.Close(ctx) // nothing was written that could be lost
		case <-p.unopened:
		}
	}
	return nil
}

// with calls do with a connection, and once more when the server has ended what it did in
// favour of another transaction: nothing of it was done then.
func (p *conns) with(ctx context.Context, do func(context.Context, *pgconn.PgConn) error) error {
	limited, stop := context.WithTimeoutCause(ctx, opTime, errSlow)
	defer stop()
	var err error
	for range attempts {
		err = p.once(limited, do)
		says, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || says.Code != "40P01" && says.Code != "40001" { // deadlock detected, serialization failure
			break
		}
	}
	if err != nil && limited.Err() != nil {
		return context.Cause(limited)
	}
	return err
}

func (p *conns) once(ctx context.Context, do func(context.Context, *pgconn.PgConn) error) error {
	c, err := p.take(ctx)
	if err != nil {
		return err
	}
	err = do(ctx, c.PgConn)
	p.give(c)
	return err
}

// take returns a connection that give takes back. One that is open comes first, even
// while none is tried: the server may have no room for another.
func (p *conns) take(ctx context.Context) (c conn, err error) {
	if ctx.Err() != nil {
		return c, context.Cause(ctx)
	}
	select {
	case c = <-p.free:
	default:
		if err := p.problem(); err != nil {
			return c, err
		}
		select {
		case c = <-p.free:
		case <-p.unopened:
		case <-p.closed:
			return c, errClosed
		case <-ctx.Done():
			return c, context.Cause(ctx)
		}
	}
	if c.PgConn != nil && time.Since(c.used) > idleTime && c.Ping(ctx) != nil {
		p.end(c) // the server has closed it meanwhile, such as in a failover
		c = conn{}
	}
	if c.PgConn == nil {
		if c.PgConn, err = p.connect(ctx); err != nil {
			p.unopened <- struct{}{}
			return c, err
		}
	}
	return c, nil
}

// give takes a connection back.
func (p *conns) give(c conn) {
	if c.IsClosed() || c.TxStatus() != 'I' {
		p.end(c)
		p.unopened <- struct{}{}
		return
	}
	c.used = time.Now()
	p.free <- c
}

// end closes a connection without waiting.
func (p *conns) end(c conn) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	_ = c.Close(ctx) // it is of no use any more
}

// problem returns why no connection is opened now, without asking the server.
func (p *conns) problem() error {
	select {
	case <-p.closed:
		return errClosed
	default:
	}
	if down := p.down.Load(); down != nil && time.Now().Before(down.until) {
		return down.err
	}
	return nil
}

// connect opens a connection whose schema is as this program needs it, to a server that
// can be written to. Just after a failover the address may still lead to the server that
// is a standby now, and a connection there would last. If it fails, whoever comes in the
// next moment gets the same error at once.
func (p *conns) connect(ctx context.Context) (*pgconn.PgConn, error) {
	if err := p.problem(); err != nil {
		return nil, err
	}
	c, err := p.open(ctx, opTime)
	if err == nil {
		if err = pgconn.ValidateConnectTargetSessionAttrsPrimary(ctx, c); err == nil {
			return c, nil
		}
		p.end(conn{PgConn: c})
	}
	err = fmt.Errorf("connect to the database: %w", err)
	if ctx.Err() == nil {
		p.down.Store(&downtime{time.Now().Add(downTime), err})
	}
	return nil, err
}

// open opens a connection, whose statements end after a time; zero: never.
func (p *conns) open(ctx context.Context, most time.Duration) (*pgconn.PgConn, error) {
	limited, stop := context.WithTimeoutCause(ctx, connectTime, errSlow)
	defer stop()
	milliseconds := fmt.Sprint(most.Milliseconds())
	c, err := pgdial.Connect(limited, p.file,
		pgdial.Options{MaxMessage: maxMessage, Settings: map[string]string{
			"search_path": "drawbridge", "statement_timeout": milliseconds, "lock_timeout": milliseconds,
			"idle_in_transaction_session_timeout": milliseconds, "default_transaction_isolation": "read " +
				"committed",
			// what is acknowledged is on the disk, whatever the server's default is
			"synchronous_commit": "on",
		}})
	if err != nil {
		return nil, err
	}
	if p.migrated.Load() {
		return c, nil
	}
	if err := migrate(ctx, c); err != nil {
		p.end(conn{PgConn: c})
		if says, ok := errors.AsType[*pgconn.PgError](err); ok {
			err = fmt.Errorf("bring the schema up to date: %w", says)
		}
		return nil, err
	}
	p.migrated.Store(true)
	return c, nil
}

// alone calls do with a connection that nobody else uses and that is closed afterwards.
// It may take as long as ctx lasts.
func (p *conns) alone(ctx context.Context, do func(*pgconn.PgConn) error) error {
	if err := p.problem(); err != nil {
		return err
	}
	c, err := p.open(ctx, 0)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer p.end(conn{PgConn: c})
	if err := do(c); err != nil && ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}
