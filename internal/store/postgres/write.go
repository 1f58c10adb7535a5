package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

const mostInserts = 200 // rows in one batch of Replace

// batch runs statements in one transaction and one round trip, and returns how many rows
// each of them has changed or returned. After an error nothing is changed; then there are
// the numbers of those before the one that failed.
func batch(ctx context.Context, c *pgconn.PgConn, statements ...store.Statement) (rows []int64, err error) {
	b := &pgconn.Batch{}
	for _, s := range statements {
		texts, bound := arguments(s.Values)
		b.ExecParams(s.Text, texts, nil, bound, nil)
	}
	results := c.ExecBatch(ctx, b)
	for results.NextResult() {
		tag, err := results.ResultReader().Close()
		if err != nil {
			break // Close says it again
		}
		rows = append(rows, tag.RowsAffected())
	}
	return rows, results.Close()
}

// change runs a batch with a connection of the store.
func (s *Store) change(ctx context.Context, statements ...store.Statement) (rows []int64, err error) {
	err = s.conns.with(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		rows, err = batch(ctx, c, statements...)
		return err
	})
	return rows, err
}

// Put writes a record.
func (s *Store) Put(ctx context.Context, r store.Record) (version int64, err error) {
	row, err := s.cfg.Seal(r)
	if err != nil {
		return 0, err
	}
	if r.Version != 0 {
		err = s.update(ctx, row, r.Version)
	} else {
		err = s.insert(ctx, row)
	}
	switch {
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrFull):
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("write a record: %w", err)
	}
	return row.Version, nil
}

// insertion is the statement that inserts a row, unless there is one.
func insertion(r store.Row) store.Statement {
	return store.NewStatement("INSERT INTO records("+store.Columns+") "+
		"VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
		r.Kind, r.ID, r.Tenant, r.Owner, r.Expires, r.Version, r.Key, r.Value)
}

// bounded is the statement that fails if the tenant of a row has too many.
func (s *Store) bounded(r store.Row) store.Statement {
	return store.NewStatement("SELECT bounded($1, $2, $3, $4)",
		r.Kind, r.Tenant, s.cfg.Bound(r.Kind), s.cfg.Time())
}

// insert writes a row that is new.
func (s *Store) insert(ctx context.Context, row store.Row) error {
	expired := store.NewStatement("DELETE FROM records WHERE kind = $1 AND id = $2 AND expires <= $3",
		row.Kind, row.ID, s.cfg.Time())
	rows, err := s.change(ctx, expired, insertion(row), s.bounded(row))
	if len(rows) > 1 && rows[1] == 0 {
		return store.ErrConflict
	}
	return isFull(err)
}

// update writes a row over the one that has a version. Nearly always it stays with its
// tenant, whose bound need not be looked at then.
func (s *Store) update(ctx context.Context, row store.Row, read int64) error {
	text := `UPDATE records SET tenant = $1, owner = $2, expires = $3, version = $4, key = $5, value = $6
		WHERE kind = $7 AND id = $8 AND version = $9 AND expires > $10 AND `
	values := []any{
		row.Tenant, row.Owner, row.Expires, row.Version, row.Key, row.Value, row.Kind, row.ID, read,
		s.cfg.Time(),
	}
	rows, err := s.change(ctx, store.NewStatement(text+"tenant = $1", values...))
	if err != nil || rows[0] > 0 {
		return err
	}
	rows, err = s.change(ctx, store.NewStatement(text+"tenant <> $1", values...), s.bounded(row))
	if len(rows) > 0 && rows[0] == 0 {
		return store.ErrConflict
	}
	return isFull(err)
}

// Delete removes a record.
func (s *Store) Delete(ctx context.Context, kind, id string) error {
	_, err := s.change(ctx,
		store.NewStatement("DELETE FROM records WHERE kind = $1 AND id = $2", kind, id))
	if err != nil {
		return fmt.Errorf("remove a record: %w", err)
	}
	return nil
}

// Check writes and reads.
func (s *Store) Check(ctx context.Context) error {
	_, err := s.change(ctx, store.NewStatement("UPDATE schema SET version = version"),
		store.NewStatement("SELECT 1 FROM records LIMIT 1"))
	return err
}

// Sweep removes rows that have expired, and seals those again that an older key seals.
// Replicas pass over what another one has in work.
func (s *Store) Sweep(ctx context.Context, p store.Pass) (store.Pass, error) {
	removed, err := s.change(ctx,
		store.NewStatement(`DELETE FROM records WHERE (kind, id) IN (SELECT kind, id FROM records
		WHERE expires <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`, s.cfg.Time(), store.MostSwept))
	if err != nil {
		return p, fmt.Errorf("remove what has expired: %w", err)
	}
	p, err = s.cfg.SealAgain(p,
		func(key, after string) ([]store.Row, string, error) { return s.ofKey(ctx, key, after) },
		func(rows []store.Row) error { return s.sealAgain(ctx, rows) })
	if err != nil {
		return p, fmt.Errorf("seal records with the newest key: %w", err)
	}
	p.More = p.More || removed[0] == store.MostSwept
	return p, nil
}

// ofKey returns rows that a key seals, after a place, and the place of the last one: its
// kind and id, which have no NUL in them.
func (s *Store) ofKey(ctx context.Context, key, after string) ([]store.Row, string, error) {
	kind, id, _ := strings.Cut(after, "\x00")
	rows, err := s.selected(ctx, store.NewStatement("SELECT "+store.Columns+" FROM records "+
		"WHERE key = $1 AND (kind, id) > ($2, $3) ORDER BY kind, id LIMIT $4",
		key, kind, id, store.MostSwept))
	if len(rows) > 0 {
		last := rows[len(rows)-1]
		after = last.Kind + "\x00" + last.ID
	}
	return rows, after, err
}

// sealAgain writes rows as another key seals them, unless they were changed meanwhile.
func (s *Store) sealAgain(ctx context.Context, rows []store.Row) error {
	if len(rows) == 0 {
		return nil
	}
	changes := make([]store.Statement, len(rows))
	for i, row := range rows {
		changes[i] = store.NewStatement("UPDATE records SET key = $1, value = $2 "+
			"WHERE kind = $3 AND id = $4 AND version = $5",
			row.Key, row.Value, row.Kind, row.ID, row.Version)
	}
	_, err := s.change(ctx, changes...)
	return err
}

// Replace puts rows in the place of all that there are, over a connection of its own.
// Others wait until it is over.
func (s *Store) Replace(ctx context.Context, rows iter.Seq2[store.Row, error]) (replaced int, err error) {
	now := s.cfg.Time()
	err = s.conns.alone(ctx, func(c *pgconn.PgConn) error {
		if err := execute(ctx, c, "BEGIN; LOCK TABLE records IN EXCLUSIVE MODE; DELETE FROM "+
			"records"); err != nil {
			return err
		}
		var next []store.Statement
		for row, err := range rows {
			if err != nil {
				return fmt.Errorf("read the rows that are to be written: %w", err)
			}
			if row.Expires <= now {
				continue
			}
			next = append(next, insertion(row))
			replaced++
			if len(next) == mostInserts {
				if _, err := batch(ctx, c, next...); err != nil {
					return err
				}
				next = next[:0]
			}
		}
		if _, err := batch(ctx, c, next...); err != nil {
			return err
		}
		return execute(ctx, c, "COMMIT")
	})
	if err != nil {
		return 0, fmt.Errorf("replace all records: %w", err)
	}
	return replaced, nil
}
