// Package postgres is a store at a PostgreSQL server, which several replicas share. Its
// tables stand in the schema drawbridge, which belongs to the role that connects.
//
// A change goes to the server as one batch of statements, which is one transaction and
// one round trip (write.go). Nothing waits longer than opTime, and while the server
// cannot be reached most calls fail at once (conns.go).
package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
		Config: &cfg, Select: s.selected, Numbers: s.numbers, Change: s.change, Anew: s.anew,
		Unlocked: " FOR UPDATE SKIP LOCKED",
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

// formats returns how the columns come: numbers as texts, and the value as bytes.
func formats() []int16 { return []int16{0, 0, 0, 0, 0, 0, 0, 1} }

// rowOf returns a row from its columns.
func rowOf(values [][]byte) (row store.Row, err error) {
	row = store.Row{
		Kind: string(values[0]), ID: string(values[1]), Tenant: string(values[2]), Owner: string(values[3]),
		Key: string(values[6]), Value: append([]byte{}, values[7]...),
	}
	var first, second error
	row.Expires, first = strconv.ParseInt(string(values[4]), 10, 64)
	row.Version, second = strconv.ParseInt(string(values[5]), 10, 64)
	return row, errors.Join(first, second)
}

// run runs a statement, and calls each with the columns of every row of its result, as
// they come in the formats; none: all as texts.
func run(ctx context.Context, c *pgconn.PgConn, of store.Statement, formats []int16,
	each func(columns [][]byte) error,
) error {
	texts, bound := arguments(of.Values)
	reader := c.ExecParams(ctx, of.Text, texts, nil, bound, formats)
	var failed error
	for failed == nil && reader.NextRow() {
		failed = each(reader.Values())
	}
	_, err := reader.Close()
	return errors.Join(failed, err)
}

// selected returns rows that a statement selects, all of them.
func (s *Store) selected(ctx context.Context, of store.Statement) (rows []store.Row, err error) {
	err = s.conns.with(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		rows = nil
		return run(ctx, c, of, formats(), func(columns [][]byte) error {
			row, err := rowOf(columns)
			rows = append(rows, row)
			return err
		})
	})
	return rows, err
}

// numbers returns a result of names and numbers.
func (s *Store) numbers(ctx context.Context, of store.Statement) (numbers map[string]int, err error) {
	err = s.conns.with(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		numbers = map[string]int{}
		return run(ctx, c, of, nil, func(columns [][]byte) error {
			n, err := strconv.Atoi(string(columns[1]))
			numbers[string(columns[0])] = n
			return err
		})
	})
	return numbers, err
}

// Rows returns all rows as they are at one moment, over a connection of their own.
func (s *Store) Rows(ctx context.Context) iter.Seq2[store.Row, error] {
	return store.Sequence(func(each func(store.Row)) error {
		return s.conns.alone(ctx, func(c *pgconn.PgConn) error {
			return run(ctx, c, store.AllRows(), formats(), func(columns [][]byte) error {
				row, err := rowOf(columns)
				if err == nil {
					each(row)
				}
				return err
			})
		})
	})
}
