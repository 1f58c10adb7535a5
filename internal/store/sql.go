package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
)

// Statement is a statement with the values of its parameters, which it names $1, $2 and
// so on, for the first time in this order. Values are texts, numbers and bytes.
type Statement struct {
	Text   string
	Values []any
}

// NewStatement returns a statement with the values of its parameters.
func NewStatement(text string, values ...any) Statement { return Statement{text, values} }

// columns are those of a row, in the order in which SQL wants them.
const columns = "kind, id, tenant, owner, expires, version, key, value"

// Columns are the values of one row of a result, by their places from zero.
type Columns interface {
	ColumnText(place int) string
	ColumnInt64(place int) int64
	// ColumnBlob appends the bytes to others.
	ColumnBlob(place int, to []byte) []byte
}

// SQL is the part of a Database that is the same in all dialects of SQL. How a statement
// is run is the implementation's own. All fields are required unless a comment says
// otherwise.
type SQL struct {
	Config *Config
	// Query calls each for every row of the result of a statement. What it is given is
	// not valid any more when it has returned.
	Query func(ctx context.Context, s Statement, each func(Columns)) error
	// Scan is Query for results of any size, which may take as long as ctx lasts.
	Scan func(ctx context.Context, s Statement, each func(Columns)) error
	// Change runs statements in one transaction, and returns how many rows each of them
	// has changed. After an error nothing is changed.
	Change func(ctx context.Context, statements ...Statement) (rows []int64, err error)
	// Anew has fill insert all rows that there are from then on, in one transaction.
	Anew func(ctx context.Context, fill func(insert func(Statement) error) error) error
	// Unlocked ends a selection of rows that are to be removed where others may have some
	// of them in work, and passes over these. "": nobody has.
	Unlocked string
	// Past ends the condition of a selection of rows that have expired by the clock of
	// this machine, and leaves out those that have not expired by the clock of the
	// database. "": that is the same clock.
	Past string

	mu sync.Mutex // guards the field below
	// of which rows the log has said that they cannot be read, by kind and id; and when
	// each expires
	logged map[string]int64
}

// Get returns a record. The id may come from anybody.
func (s *SQL) Get(ctx context.Context, kind, id string) (Record, error) {
	if !isName(id) {
		return Record{}, ErrNotFound
	}
	rows, err := s.rows(ctx, NewStatement(
		"SELECT "+columns+" FROM records WHERE kind = $1 AND id = $2 AND expires > $3",
		kind, id, s.Config.Time()))
	if err != nil {
		return Record{}, fmt.Errorf("read a record: %w", err)
	}
	if len(rows) == 0 {
		return Record{}, ErrNotFound
	}
	return s.Config.Open(rows[0])
}

// rows returns all rows of a statement that selects columns.
func (s *SQL) rows(ctx context.Context, of Statement) (rows []Row, err error) {
	err = s.Query(ctx, of, func(c Columns) { rows = append(rows, rowOf(c)) })
	return rows, err
}

// rowOf returns the row of columns. Its value is never nil, which would be NULL.
func rowOf(c Columns) Row {
	return Row{
		Kind: c.ColumnText(0), ID: c.ColumnText(1), Tenant: c.ColumnText(2), Owner: c.ColumnText(3),
		Expires: c.ColumnInt64(4), Version: c.ColumnInt64(5), Value: c.ColumnBlob(7, []byte{}),
	}
}

// List returns the records of a query whose rows can be read. Of others the log has a
// line, once of each: they are of no use to anybody, and neither may they hide what comes
// after them, so others are read in their place.
func (s *SQL) List(ctx context.Context, q Query) ([]Record, error) {
	var records []Record
	var failed error
	unread := map[string]int64{}
	most := q.Most()
	for q.Limit = most; ; q.Limit = min(2*q.Limit, maxListed) { // else many bad ones would come one by one
		some, err := s.rows(ctx, Listing(q, s.Config.Time()))
		if err != nil {
			return nil, fmt.Errorf("list records: %w", err)
		}
		for i := 0; i < len(some) && len(records) < most; i++ {
			q.After = some[i].ID
			if r, err := s.Config.Open(some[i]); err == nil {
				records = append(records, r)
			} else {
				failed = err
				unread[q.Kind+"\x00"+some[i].ID] = some[i].Expires
			}
		}
		if len(some) < q.Limit || len(records) == most {
			break
		}
	}
	if fresh := s.unlogged(unread); fresh > 0 {
		s.Config.Log.ErrorContext(ctx, "records cannot be read", slog.Int("records", fresh),
			slog.Any("error", failed))
	}
	return records, nil
}

// unlogged returns of how many rows that cannot be read the log has not told yet. Some
// lists are read several times a second.
func (s *SQL) unlogged(unread map[string]int64) int {
	if len(unread) == 0 {
		return 0
	}
	now := s.Config.Time()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logged == nil {
		s.logged = map[string]int64{}
	}
	maps.DeleteFunc(s.logged, func(_ string, expires int64) bool { return expires <= now })
	before := len(s.logged)
	maps.Copy(s.logged, unread)
	return len(s.logged) - before
}

// Listing returns the statement of a list. The index of owners has the rows that have
// one, and SQLite uses it only where the statement says that it wants no others.
// https://www.sqlite.org/partialindex.html#queries_using_partial_indexes
func Listing(q Query, now int64) Statement {
	text, values := "SELECT "+columns+" FROM records WHERE kind = $1 AND id > $2 AND expires > $3",
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
func (s *SQL) Count(ctx context.Context, kind string) (map[string]int, error) {
	return s.numbers(ctx, "SELECT tenant, records FROM counts WHERE kind = $1 AND records > 0", kind)
}

// Kinds returns how many rows there are of each kind.
func (s *SQL) Kinds(ctx context.Context) (map[string]int, error) {
	return s.numbers(ctx,
		"SELECT kind, CAST(sum(records) AS bigint) FROM counts WHERE records > 0 GROUP BY kind")
}

// UsedKeys is the statement that selects which keys seal rows. It goes from one key to
// the next in their index: to count the rows of each took seconds where there are
// millions.
func UsedKeys() Statement {
	return NewStatement("WITH RECURSIVE used(key) AS (SELECT min(key) FROM records UNION ALL " +
		"SELECT (SELECT min(key) FROM records WHERE records.key > used.key) FROM used " +
		"WHERE used.key IS NOT NULL) SELECT key FROM used WHERE key IS NOT NULL")
}

// Keys returns which keys seal rows.
func (s *SQL) Keys(ctx context.Context) (ids []string, err error) {
	err = s.Query(ctx, UsedKeys(), func(c Columns) { ids = append(ids, c.ColumnText(0)) })
	return ids, err
}

// numbers returns what a statement selects: names, each with a number.
func (s *SQL) numbers(ctx context.Context, text string, values ...any) (map[string]int, error) {
	numbers := map[string]int{}
	if err := s.Query(ctx, Statement{text, values}, func(c Columns) {
		numbers[c.ColumnText(0)] = int(c.ColumnInt64(1))
	}); err != nil {
		return nil, fmt.Errorf("count records: %w", err)
	}
	return numbers, nil
}

// Check writes and reads. What it writes differs from what is there, though nobody else
// sees it: SQLite writes nothing where a row stays as it is, and would find no fault on a
// disk that is full.
func (s *SQL) Check(ctx context.Context) error {
	if _, err := s.Change(ctx, NewStatement("UPDATE schema SET version = version + 1"),
		NewStatement("UPDATE schema SET version = version - 1")); err != nil {
		return err
	}
	_, err := s.Count(ctx, "")
	return err
}

// Put writes a record.
func (s *SQL) Put(ctx context.Context, r Record) (version int64, err error) {
	row, err := s.Config.Seal(r)
	if err != nil {
		return 0, err
	}
	if r.Version != 0 {
		err = s.update(ctx, row, r.Version)
	} else {
		err = s.insert(ctx, row)
	}
	switch {
	case errors.Is(err, ErrConflict), errors.Is(err, ErrFull):
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("write a record: %w", err)
	}
	return row.Version, nil
}

// insertion is the statement that inserts rows, but none that is there.
func insertion(rows ...Row) Statement {
	var lists []string
	var values []any
	for i := range rows {
		r, n := &rows[i], len(values)
		lists = append(lists, fmt.Sprintf("($%d, $%d, $%d, $%d, $%d, $%d, $%d, $%d)",
			n+1, n+2, n+3, n+4, n+5, n+6, n+7, n+8))
		values = append(values, r.Kind, r.ID, r.Tenant, r.Owner, r.Expires, r.Version, r.key(), r.Value)
	}
	return Statement{"INSERT INTO records(" + columns + ") VALUES " + strings.Join(lists, ", ") +
		" ON CONFLICT DO NOTHING", values}
}

// insert writes a row that is new. If it is one too many, it is removed again.
func (s *SQL) insert(ctx context.Context, row Row) error {
	return s.bounded(ctx, row, insertion(row),
		NewStatement(`DELETE FROM records WHERE kind = $1 AND id = $2 AND version = $3 AND EXISTS
			(SELECT 1 FROM counts WHERE kind = $1 AND tenant = $4 AND records > $5)`,
			row.Kind, row.ID, row.Version, row.Tenant, s.Config.bound()))
}

// update writes a row over the one that has a version. Nearly always it stays with its
// tenant, whose bound need not be looked at then. One that moves to a tenant which is
// full stays as it was read.
func (s *SQL) update(ctx context.Context, row Row, read int64) error {
	text := `UPDATE records SET tenant = $1, owner = $2, expires = $3, version = $4, key = $5, value = $6
		WHERE kind = $7 AND id = $8 AND version = $9 AND expires > $10 AND `
	values := []any{
		row.Tenant, row.Owner, row.Expires, row.Version, row.key(), row.Value, row.Kind, row.ID, read,
		s.Config.Time(),
	}
	rows, err := s.Change(ctx, Statement{text + "tenant = $1", values})
	if err != nil || rows[0] > 0 {
		return err
	}
	text += "tenant <> $1 AND NOT EXISTS " +
		"(SELECT 1 FROM counts WHERE kind = $7 AND tenant = $1 AND records >= $11)"
	values = append(values, s.Config.bound())
	return s.bounded(ctx, row, Statement{text, values}, NewStatement("UPDATE records SET version = version "+
		"WHERE kind = $1 AND id = $2 AND version = $3 AND tenant <> $4", row.Kind, row.ID, read, row.Tenant))
}

// bounded writes a row in one transaction with full, which changes something if the
// tenant of the row has too many of its kind. Then what has expired of them gives way.
func (s *SQL) bounded(ctx context.Context, row Row, write, full Statement) error {
	now := s.Config.Time()
	for _, expired := range []Statement{
		NewStatement("DELETE FROM records WHERE kind = $1 AND id = $2 AND expires <= $3",
			row.Kind, row.ID, now),
		NewStatement("DELETE FROM records WHERE (kind, id) IN (SELECT kind, id FROM records "+
			"WHERE kind = $1 AND tenant = $2 AND expires <= $3"+s.Past+" LIMIT $4)",
			row.Kind, row.Tenant, now, MostSwept),
	} {
		rows, err := s.Change(ctx, expired, write, full)
		switch {
		case err != nil:
			return err
		case rows[2] == 0 && rows[1] == 0:
			return ErrConflict
		case rows[2] == 0:
			return nil
		}
	}
	return ErrFull
}

// Delete removes a record.
func (s *SQL) Delete(ctx context.Context, kind, id string) error {
	_, err := s.Change(ctx, NewStatement("DELETE FROM records WHERE kind = $1 AND id = $2", kind, id))
	if err != nil {
		return fmt.Errorf("remove a record: %w", err)
	}
	return nil
}

// MostSwept is how many rows one statement removes at most, and how many are sealed again
// in one transaction.
const MostSwept = 500

// Sweep removes rows that have expired, and seals those again that older keys seal. One
// replica whose clock is months ahead must not remove what others have.
func (s *SQL) Sweep(ctx context.Context) (unread int, err error) {
	for more := true; more; {
		removed, err := s.Change(ctx, NewStatement("DELETE FROM records WHERE (kind, id) IN "+
			"(SELECT kind, id FROM records WHERE expires <= $1"+s.Past+" LIMIT $2"+s.Unlocked+")",
			s.Config.Time(), MostSwept))
		if err != nil {
			return 0, fmt.Errorf("remove what has expired: %w", err)
		}
		more = removed[0] == MostSwept
	}
	for _, older := range s.Config.Ring.IDs()[1:] {
		left, err := s.sealAgain(ctx, older)
		if err != nil {
			return 0, fmt.Errorf("seal records with the newest key: %w", err)
		}
		unread += left
	}
	return unread, nil
}

// sealAgain seals the rows of an older key with the newest one, unless they are changed
// meanwhile. They keep their versions, since nobody who has read one need know of it.
func (s *SQL) sealAgain(ctx context.Context, older string) (unread int, err error) {
	var last Row
	for {
		rows, err := s.rows(ctx, OfKey(older, last.Kind, last.ID))
		if err != nil {
			return 0, err
		}
		var changes []Statement
		for _, row := range rows {
			last = row
			plain, err := s.Config.Ring.OpenBytes(row.purpose(), row.Value)
			if err != nil {
				unread++
				continue
			}
			row.Value = s.Config.Ring.SealBytes(row.purpose(), plain)
			changes = append(changes, NewStatement(
				"UPDATE records SET key = $1, value = $2 WHERE kind = $3 AND id = $4 AND version = $5",
				row.key(), row.Value, row.Kind, row.ID, row.Version))
		}
		if _, err := s.Change(ctx, changes...); err != nil {
			return 0, err
		}
		if len(rows) < MostSwept {
			return unread, nil
		}
	}
}

// OfKey is the statement that selects rows which a key seals, after the one with that
// kind and id.
func OfKey(key, kind, id string) Statement {
	return NewStatement("SELECT "+columns+" FROM records "+
		"WHERE key = $1 AND (kind, id) > ($2, $3) ORDER BY kind, id LIMIT $4", key, kind, id, MostSwept)
}

// Rows returns all rows as they are at one moment. Whoever wants no more waits until the
// others have been read.
func (s *SQL) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		stopped := false
		err := s.Scan(ctx, NewStatement("SELECT "+columns+" FROM records ORDER BY kind, id"),
			func(c Columns) { stopped = stopped || !yield(rowOf(c), nil) })
		if err != nil && !stopped {
			yield(Row{}, fmt.Errorf("read all records: %w", err))
		}
	}
}

// mostInserts is how many rows one statement inserts. PostgreSQL counts the rows of a
// statement at once: with one row in each, it goes through all earlier counts of the
// transaction each time, and 100,000 rows took minutes. A connection of SQLite has them
// all in its memory: 6 of 16 MiB, where each is as large as it may be.
const mostInserts = 100

// Replace puts rows in the place of all that there are.
func (s *SQL) Replace(ctx context.Context, rows iter.Seq2[Row, error]) (int, error) {
	now, replaced := s.Config.Time(), 0
	err := s.Anew(ctx, func(insert func(Statement) error) error {
		var next []Row
		for row, err := range rows {
			if err != nil {
				return fmt.Errorf("read the rows that are to be written: %w", err)
			}
			if row.Expires <= now {
				continue
			}
			replaced++
			if next = append(next, row); len(next) < mostInserts {
				continue
			}
			if err := insert(insertion(next...)); err != nil {
				return err
			}
			next = next[:0]
		}
		if len(next) == 0 {
			return nil
		}
		return insert(insertion(next...))
	})
	if err != nil {
		return 0, fmt.Errorf("write all records: %w", err)
	}
	return replaced, nil
}

// Migration is one step of a schema, which stands in the database for good. A step that
// the program before survives leaves Oldest as it is: it adds tables, or columns that
// have a default. Any other needs two releases.
type Migration struct {
	Oldest int // version of the schema that a program must know to use the database after this step
	Text   string
}

// Upgrade returns the statements that bring a schema of that version to the one that this
// program knows, of which the first step makes version 1; "": it may be used as it is.
// oldest is what the database says that a program must know.
func Upgrade(steps []Migration, version, oldest int) (text string, err error) {
	if oldest > len(steps) {
		return "", &SchemaError{Schema: version, Known: len(steps)}
	}
	if version >= len(steps) {
		return "", nil
	}
	for _, step := range steps[version:] {
		text += step.Text + ";\n"
		oldest = step.Oldest
	}
	text += fmt.Sprintf("DELETE FROM schema; INSERT INTO schema VALUES (%d, %d);", len(steps), oldest)
	return text, nil
}
