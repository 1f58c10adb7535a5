package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
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
	endTime     = time.Second     // of closing one
	downTime    = time.Second     // after a connection could not be opened, none is tried
	idleTime    = time.Second     // a connection that nobody used for longer is tried before it is used
	tryTime     = time.Second     // of trying one; two and a new one fit into opTime
	maxMessage  = 1 << 20         // of the server, in bytes; a row is far smaller
)

// errSlow is why something was not waited for any longer.
var errSlow = errors.New("the database did not answer in time")

// conns are the connections of a store. Package database/sql keeps those that are open,
// and has conns open another one. It runs no statements: whoever takes a connection uses
// it as it is.
type conns struct {
	file     string
	pool     *sql.DB
	down     atomic.Pointer[downtime]
	migrated atomic.Bool // by this process, or found to be
}

var _ driver.Connector = (*conns)(nil)

// downtime is why no connection is tried for a while.
type downtime struct {
	until time.Time
	err   error
}

func newConns(file string) *conns {
	p := &conns{file: file}
	p.pool = sql.OpenDB(p)
	p.pool.SetMaxOpenConns(mostConns)
	p.pool.SetMaxIdleConns(mostConns)
	return p
}

// with calls do with a connection of the pool.
func (p *conns) with(ctx context.Context, do func(context.Context, *pgconn.PgConn) error) error {
	limited, stop := context.WithTimeoutCause(ctx, opTime, errSlow)
	defer stop()
	taken, err := p.pool.Conn(limited)
	if err == nil {
		err = taken.Raw(func(opened any) error { return do(limited, opened.(*conn).PgConn) })
		_ = taken.Close() // it goes back to the pool
	}
	if err != nil && limited.Err() != nil {
		return context.Cause(limited)
	}
	return err
}

// Connect opens a connection of the pool to a server that can be written to. Just after a
// failover the address may still lead to the server that is a standby now, and a
// connection there would last. If it fails, whoever comes in the next moment gets the
// same error at once.
func (p *conns) Connect(ctx context.Context) (driver.Conn, error) {
	if err := p.problem(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, opTime, errSlow)
	defer stop()
	c, err := p.open(ctx, opTime)
	if err == nil {
		if err = pgconn.ValidateConnectTargetSessionAttrsPrimary(ctx, c); err == nil {
			return &conn{PgConn: c, used: time.Now()}, nil
		}
		end(c)
	}
	err = fmt.Errorf("connect to the database: %w", err)
	if ctx.Err() == nil {
		p.down.Store(&downtime{time.Now().Add(downTime), err})
	}
	return nil, err
}

// problem returns why no connection is opened now, without asking the server.
func (p *conns) problem() error {
	if down := p.down.Load(); down != nil && time.Now().Before(down.until) {
		return down.err
	}
	return nil
}

// Driver implements driver.Connector. Nobody asks for it.
func (p *conns) Driver() driver.Driver { return nil }

// conn is a connection of the pool.
type conn struct {
	*pgconn.PgConn

	used time.Time
}

var (
	_ driver.SessionResetter = (*conn)(nil)
	_ driver.Validator       = (*conn)(nil)
)

// ResetSession tells before a connection is used whether it still can be: the server may
// have closed it meanwhile, such as in a failover, or have vanished without a word.
func (c *conn) ResetSession(ctx context.Context) error {
	if time.Since(c.used) <= idleTime {
		return nil
	}
	limited, stop := context.WithTimeout(ctx, tryTime)
	defer stop()
	if c.Ping(limited) != nil {
		return driver.ErrBadConn
	}
	return nil
}

// IsValid tells whether a connection that was used can be used again.
func (c *conn) IsValid() bool {
	c.used = time.Now()
	return !c.IsClosed() && c.TxStatus() == 'I'
}

// Close closes a connection that the pool does not want any more.
func (c *conn) Close() error {
	end(c.PgConn)
	return nil
}

// A driver.Conn has these two besides, which nobody calls.
func (*conn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (*conn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }

// end closes a connection. What was not committed is rolled back.
func end(c *pgconn.PgConn) {
	ctx, stop := context.WithTimeout(context.Background(), endTime)
	defer stop()
	_ = c.Close(ctx) // nothing was written that could be lost
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
		end(c)
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
	defer end(c)
	if err := do(c); err != nil && ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}
