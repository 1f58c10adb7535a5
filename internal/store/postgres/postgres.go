// Package postgres is a store at a PostgreSQL server, which several replicas share. Its
// tables stand in the schema drawbridge, which belongs to the role that connects.
//
// A change goes to the server as one batch of statements, which is one transaction and
// one round trip (write.go). Nothing waits longer than opTime, and while the server
// cannot be reached most calls fail at once (conns.go).
package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

// Store is a database at a PostgreSQL server.
type Store struct {
	store.SQL

	conns *conns
}

var _ store.Database = (*Store)(nil)

// New returns the database at the address in a file. It connects when it is first asked
// for something, and brings the schema up to date then: an error that wraps a
// *store.SchemaError says that it cannot. A server that is away at the start is no reason
// for a gateway not to start.
func New(file string, cfg store.Config) *Store {
	s := &Store{conns: newConns(file)}
	s.SQL = store.SQL{
		Config: &cfg, Query: s.query, Scan: s.scan, Change: s.change, Anew: s.anew,
		Unlocked: " FOR UPDATE SKIP LOCKED", Past: " AND expires <= extract(epoch FROM now()) * 1000",
	}
	return s
}

// Close closes the connections, those in use as soon as nobody uses them.
func (s *Store) Close() error { return s.conns.pool.Close() }

// arguments returns the arguments of a statement as texts, and bytes as they are.
func arguments(values []any) (texts [][]byte, formats []int16) {
	for _, value := range values {
		format := int16(0)
		switch v := value.(type) {
		case string:
			texts = append(texts, []byte(v))
		case int:
			texts = append(texts, strconv.AppendInt(nil, int64(v), 10))
		case int64:
			texts = append(texts, strconv.AppendInt(nil, v, 10))
		case []byte:
			texts, format = append(texts, append([]byte{}, v...)), 1
		default:
			panic(fmt.Sprintf("a %T cannot be bound", v))
		}
		formats = append(formats, format)
	}
	return texts, formats
}

// columns are the values of a row as the server has them in memory, with the highest byte
// of a number first.
type columns [][]byte

var _ store.Columns = columns(nil)

// ColumnText implements store.Columns.
func (c columns) ColumnText(place int) string { return string(c[place]) }

// ColumnInt64 implements store.Columns, for an integer that is not below zero.
func (c columns) ColumnInt64(place int) (n int64) {
	for _, digit := range c[place] {
		n = n<<8 | int64(digit)
	}
	return n
}

// ColumnBlob implements store.Columns.
func (c columns) ColumnBlob(place int, to []byte) []byte { return append(to, c[place]...) }

// run runs a statement, and calls each for every row of its result.
func run(ctx context.Context, c *pgconn.PgConn, of store.Statement, each func(store.Columns)) error {
	texts, bound := arguments(of.Values)
	reader := c.ExecParams(ctx, of.Text, texts, nil, bound, []int16{1}) // for all columns: as columns are
	for reader.NextRow() {
		each(columns(reader.Values()))
	}
	_, err := reader.Close()
	return err
}

// query runs a statement with a connection of the store.
func (s *Store) query(ctx context.Context, of store.Statement, each func(store.Columns)) error {
	return s.conns.with(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		return run(ctx, c, of, each)
	})
}

// scan runs a statement over a connection of its own.
func (s *Store) scan(ctx context.Context, of store.Statement, each func(store.Columns)) error {
	return s.conns.alone(ctx, func(c *pgconn.PgConn) error { return run(ctx, c, of, each) })
}
