package store

import (
	"context"
	"fmt"
	"iter"
	"strconv"
)

// Statement is a statement with the values of its parameters, which it names $1, $2 and
// so on, for the first time in this order. Values are texts, numbers and bytes.
type Statement struct {
	Text   string
	Values []any
}

// NewStatement returns a statement with the values of its parameters.
func NewStatement(text string, values ...any) Statement { return Statement{text, values} }

// Columns are those of a row, in the order in which Reading wants them.
const Columns = "kind, id, tenant, owner, expires, version, key, value"

// Reading is the part of a Database over SQL that reads. The statements are the same in
// all dialects; how one is run is the implementation's own.
type Reading struct {
	Config *Config
	// Select returns all rows of a statement that selects Columns.
	Select func(ctx context.Context, s Statement) ([]Row, error)
	// Numbers returns what a statement selects: names, each with a number.
	Numbers func(ctx context.Context, s Statement) (map[string]int, error)
}

// Get returns a record.
func (r *Reading) Get(ctx context.Context, kind, id string) (Record, error) {
	rows, err := r.Select(ctx, Statement{
		"SELECT " + Columns + " FROM records WHERE kind = $1 AND id = $2 AND expires > $3",
		[]any{kind, id, r.Config.Time()},
	})
	if err != nil {
		return Record{}, fmt.Errorf("read a record: %w", err)
	}
	if len(rows) == 0 {
		return Record{}, ErrNotFound
	}
	return r.Config.Open(rows[0])
}

// List returns records.
func (r *Reading) List(ctx context.Context, q Query) ([]Record, error) {
	return r.Config.Listed(ctx, q, func(q Query) ([]Row, error) {
		return r.Select(ctx, Listing(q, r.Config.Time()))
	})
}

// Listing returns the statement of a list. The index of owners has the rows that have
// one, and SQLite uses it only where the statement says that it wants no others.
// https://www.sqlite.org/partialindex.html#queries_using_partial_indexes
func Listing(q Query, now int64) Statement {
	text, values := "SELECT "+Columns+" FROM records WHERE kind = $1 AND id > $2 AND expires > $3",
		[]any{q.Kind, q.After, now}
	parameter := func(value any) string {
		values = append(values, value)
		return "$" + strconv.Itoa(len(values))
	}
	if q.Tenant != "" {
		text += " AND tenant = " + parameter(q.Tenant)
	}
	if q.Owner != "" {
		text += " AND owner <> '' AND owner = " + parameter(q.Owner)
	}
	text += " ORDER BY id LIMIT " + parameter(q.Most())
	return Statement{text, values}
}

// Count returns how many records of a kind there are.
func (r *Reading) Count(ctx context.Context, kind string) (map[string]int, error) {
	return r.numbers(ctx, "SELECT tenant, records FROM counts WHERE kind = $1 AND records > 0", kind)
}

// Kinds returns how many rows there are of each kind.
func (r *Reading) Kinds(ctx context.Context) (map[string]int, error) {
	return r.numbers(ctx, "SELECT kind, sum(records) FROM counts WHERE records > 0 GROUP BY kind")
}

// Keys returns how many rows each key seals.
func (r *Reading) Keys(ctx context.Context) (map[string]int, error) {
	return r.numbers(ctx, "SELECT key, count(*) FROM records GROUP BY key")
}

func (r *Reading) numbers(ctx context.Context, text string, values ...any) (map[string]int, error) {
	numbers, err := r.Numbers(ctx, Statement{text, values})
	if err != nil {
		return nil, fmt.Errorf("count records: %w", err)
	}
	return numbers, nil
}

// Sequence returns the rows that all calls each for, until that returns false. An error
// of all ends them.
func Sequence(all func(each func(Row) bool) error) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		stopped := false
		err := all(func(row Row) bool {
			stopped = !yield(row, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(Row{}, fmt.Errorf("read all records: %w", err))
		}
	}
}
