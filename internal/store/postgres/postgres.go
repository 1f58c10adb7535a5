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
	cfg   store.Config
	conns *conns
}

var _ store.Database = (*Store)(nil)

// New returns the database at the address in a file. It connects when it is first asked
// for something, and brings the schema up to date then: an error that wraps a
// *store.SchemaError says that it cannot. A server that is away at the start is no reason
// for a gateway not to start.
func New(file string, cfg store.Config) *Store { return &Store{cfg, newConns(file)} }

// Close closes the connections.
func (s *Store) Close() error { return s.conns.close() }

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

// columns are those of a row, in the order in which rowOf reads them. Numbers come as
// texts, and the value as bytes.
const columns = "kind, id, tenant, owner, expires, version, key, value"

// formats returns how the columns come.
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

// selected returns rows that a statement selects, all of them.
func (s *Store) selected(ctx context.Context, text string, values ...any) (rows []store.Row, err error) {
	err = s.conns.with(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		rows = nil
		texts, bound := arguments(values)
		reader := c.ExecParams(ctx, text, texts, nil, bound, formats())
		return read(reader, func(row store.Row) bool { rows = append(rows, row); return true })
	})
	return rows, err
}

// read calls each for all rows of a result, until it returns false.
func read(reader *pgconn.ResultReader, each func(store.Row) bool) error {
	var failed error
	for failed == nil && reader.NextRow() {
		var row store.Row
		if row, failed = rowOf(reader.Values()); failed == nil && !each(row) {
			break
		}
	}
	_, err := reader.Close()
	return errors.Join(failed, err)
}

// Get returns a record.
func (s *Store) Get(ctx context.Context, kind, id string) (store.Record, error) {
	rows, err := s.selected(ctx, "SELECT "+columns+
		" FROM records WHERE kind = $1 AND id = $2 AND expires > $3", kind, id,
		s.cfg.Time())
	if err != nil {
		return store.Record{}, fmt.Errorf("read a record: %w", err)
	}
	if len(rows) == 0 {
		return store.Record{}, store.ErrNotFound
	}
	return s.cfg.Open(rows[0])
}

// List returns records.
func (s *Store) List(ctx context.Context, q store.Query) ([]store.Record, error) {
	return s.cfg.Listed(ctx, q, func(q store.Query) ([]store.Row, error) { return s.rowsOf(ctx, q) })
}

// rowsOf returns the rows of a query.
func (s *Store) rowsOf(ctx context.Context, q store.Query) ([]store.Row, error) {
	text, values := "SELECT "+columns+" FROM records WHERE kind = $1 AND id > $2 AND expires > $3",
		[]any{q.Kind, q.After, s.cfg.Time()}
	if q.Tenant != "" {
		values = append(values, q.Tenant)
		text += " AND tenant = $" + strconv.Itoa(len(values))
	}
	if q.Owner != "" {
		values = append(values, q.Owner)
		text += " AND owner = $" + strconv.Itoa(len(values))
	}
	return s.selected(ctx, text+" ORDER BY id LIMIT "+strconv.Itoa(q.Most()), values...)
}

// Count returns how many records of a kind there are.
func (s *Store) Count(ctx context.Context, kind string) (map[string]int, error) {
	return s.numbers(ctx, "SELECT tenant, records FROM counts WHERE kind = $1 AND records > 0", kind)
}

// Kinds returns how many rows there are of each kind.
func (s *Store) Kinds(ctx context.Context) (map[string]int, error) {
	return s.numbers(ctx, "SELECT kind, sum(records) FROM counts WHERE records > 0 GROUP BY kind")
}

// Keys returns how many rows each key seals.
func (s *Store) Keys(ctx context.Context) (map[string]int, error) {
	return s.numbers(ctx, "SELECT key, count(*) FROM records GROUP BY key")
}

// numbers returns a result of names and numbers.
func (s *Store) numbers(ctx context.Context, text string, values ...any) (map[string]int, error) {
	var numbers map[string]int
	err := s.conns.with(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		texts, bound := arguments(values)
		result := c.ExecParams(ctx, text, texts, nil, bound, nil).Read()
		if result.Err != nil {
			return result.Err
		}
		numbers = map[string]int{}
		for _, row := range result.Rows {
			n, err := strconv.Atoi(string(row[1]))
			if err != nil {
				return err
			}
			numbers[string(row[0])] = n
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count records: %w", err)
	}
	return numbers, nil
}

// Rows returns all rows as they are at one moment, over a connection of their own.
func (s *Store) Rows(ctx context.Context) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		stopped := false
		err := s.conns.alone(ctx, func(c *pgconn.PgConn) error {
			reader := c.ExecParams(ctx, "SELECT "+columns+" FROM records ORDER BY kind, id", nil, nil, nil,
				formats())
			return read(reader, func(row store.Row) bool {
				stopped = !yield(row, nil)
				return !stopped
			})
		})
		if err != nil && !stopped {
			yield(store.Row{}, fmt.Errorf("read all records: %w", err))
		}
	}
}
