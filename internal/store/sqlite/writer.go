package sqlite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/ncruces/go-sqlite3"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

const mostWrites = 256 // that one transaction takes

// write is something to be done in a transaction. Its goroutine waits for done.
type write struct {
	ctx    context.Context //nolint:containedctx // the goroutine that writes has another one
	do     func(c *conn) error
	failed error      // of this one alone
	done   chan error // has room for one
}

// write has something done and committed. If ctx ends before that is known, it may be
// done or not.
func (s *Store) write(ctx context.Context, do func(c *conn) error) error {
	w := &write{ctx: ctx, do: do, done: make(chan error, 1)}
	select {
	case <-s.closed:
		return errClosed
	default:
	}
	select {
	case s.writes <- w:
	case <-s.closed:
		return errClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.over:
	}
	select {
	case err := <-w.done:
		return err
	default:
		return errClosed // it came when the goroutine that writes had looked for the last time
	}
}

// writer writes until the store is closed. It opens another connection after an error
// that the one it has may not survive.
func (s *Store) writer(c *conn) {
	defer close(s.over)
	for batch := s.next(); batch != nil; batch = s.next() {
		var err error
		if c == nil {
			c, err = connect(s.path, false)
		}
		if err == nil {
			err = guarded(c, func(c *conn) error { return commit(c, batch) })
		}
		for _, w := range batch {
			if err != nil {
				w.failed = fmt.Errorf("write a record: %w", err)
			}
			w.done <- w.failed
		}
		if c != nil && err != nil {
			_ = c.shut() // the error says why it is of no use any more
			c = nil
		}
	}
	if c != nil {
		s.ended = c.shut()
	}
}

// next waits for something to write and returns all that is there, at most mostWrites. It
// returns nil when the store is closed and nothing is left.
func (s *Store) next() (batch []*write) {
	select {
	case w := <-s.writes:
		batch = append(batch, w)
	case <-s.closed:
	}
	for len(batch) < mostWrites {
		select {
		case w := <-s.writes:
			batch = append(batch, w)
		default:
			return batch
		}
	}
	return batch
}

// commit does what is in a batch in one transaction.
func commit(c *conn, batch []*write) (err error) {
	if err := c.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for _, w := range batch {
		if w.ctx.Err() != nil {
			w.failed = context.Cause(w.ctx) // nobody waits for it
			continue
		}
		if err := attempt(c, w); err != nil {
			return errors.Join(err, rollback(c))
		}
	}
	if err := c.Exec("COMMIT"); err != nil {
		return errors.Join(err, rollback(c))
	}
	return nil
}

// rollback ends the transaction, if the error before it has not done so.
func rollback(c *conn) error {
	if c.GetAutocommit() {
		return nil
	}
	return c.Exec("ROLLBACK")
}

// attempt does one thing of a transaction. What is refused is undone, and the others go
// on; the error is one that the transaction does not survive.
func attempt(c *conn, w *write) error {
	if err := c.run(nil, "SAVEPOINT attempt"); err != nil {
		return err
	}
	err := w.do(c)
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrFull) || errors.Is(err, errRows) {
		w.failed = err
		err = c.run(nil, "ROLLBACK TO attempt")
	}
	if err != nil {
		return err
	}
	return c.run(nil, "RELEASE attempt")
}

// Put writes a record.
func (s *Store) Put(ctx context.Context, r store.Record) (version int64, err error) {
	row, err := s.cfg.Seal(r)
	if err != nil {
		return 0, err
	}
	err = s.write(ctx, func(c *conn) error {
		if r.Version != 0 {
			return s.update(c, row, r.Version)
		}
		return s.insert(c, row)
	})
	if err != nil {
		return 0, err
	}
	return row.Version, nil
}

// update writes a row over the one that has a version.
func (s *Store) update(c *conn, row store.Row, read int64) error {
	found, tenant := false, ""
	if err := c.run(func(at *sqlite3.Stmt) { found, tenant = true, at.ColumnText(0) },
		"SELECT tenant FROM records WHERE kind = ? AND id = ? AND version = ? AND expires > ?",
		row.Kind, row.ID, read, s.cfg.Time()); err != nil {
		return err
	}
	if !found {
		return store.ErrConflict
	}
	if err := c.run(nil,
		`UPDATE records SET tenant = ?, owner = ?, expires = ?, version = ?, key = ?, value = ?
		WHERE kind = ? AND id = ?`, row.Tenant, row.Owner, row.Expires, row.Version, row.Key, row.Value,
		row.Kind, row.ID); err != nil {
		return err
	}
	if tenant == row.Tenant {
		return nil
	}
	return s.bound(c, row)
}

// insert writes a row that is new.
func (s *Store) insert(c *conn, row store.Row) error {
	if err := c.run(nil, "DELETE FROM records WHERE kind = ? AND id = ? AND expires <= ?", row.Kind, row.ID,
		s.cfg.Time()); err != nil {
		return err
	}
	before := c.TotalChanges()
	if err := insertRow(c, row); err != nil {
		return err
	}
	if c.TotalChanges() == before {
		return store.ErrConflict
	}
	return s.bound(c, row)
}

func insertRow(c *conn, r store.Row) error {
	return c.run(nil, "INSERT INTO records("+store.Columns+
		") VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
		r.Kind, r.ID, r.Tenant, r.Owner, r.Expires, r.Version, r.Key, r.Value)
}

// bound refuses a row that is one too many for its tenant. Those that have expired give
// way first.
func (s *Store) bound(c *conn, row store.Row) error {
	for range 2 {
		records := 0
		if err := c.run(func(at *sqlite3.Stmt) { records = at.ColumnInt(0) },
			"SELECT records FROM counts WHERE kind = ? AND tenant = ?", row.Kind, row.Tenant); err != nil {
			return err
		}
		if records <= s.cfg.Bound(row.Kind) {
			return nil
		}
		if err := c.run(nil, `DELETE FROM records WHERE rowid IN (SELECT rowid FROM records
			WHERE kind = ? AND tenant = ? AND expires <= ? LIMIT ?)`, row.Kind, row.Tenant, s.cfg.Time(),
			store.MostSwept); err != nil {
			return err
		}
	}
	return store.ErrFull
}

// Delete removes a record.
func (s *Store) Delete(ctx context.Context, kind, id string) error {
	return s.write(ctx, func(c *conn) error {
		return c.run(nil, "DELETE FROM records WHERE kind = ? AND id = ?", kind, id)
	})
}

// Check writes and reads.
func (s *Store) Check(ctx context.Context) error {
	err := s.write(ctx, func(c *conn) error { return c.run(nil, "UPDATE schema SET version = version") })
	if err != nil {
		return err
	}
	_, err = s.Count(ctx, "")
	return err
}

// Sweep removes rows that have expired, and seals those again that an older key seals.
func (s *Store) Sweep(ctx context.Context, p store.Pass) (next store.Pass, err error) {
	err = s.write(ctx, func(c *conn) error {
		removed, err := s.expire(c)
		if err != nil {
			return err
		}
		next, err = s.cfg.SealAgain(p, c.ofKey, c.sealAgain)
		next.More = next.More || removed == store.MostSwept
		return err
	})
	return next, err
}

// expire removes rows that have expired, and returns how many.
func (s *Store) expire(c *conn) (int, error) {
	removed := 0
	err := c.run(func(*sqlite3.Stmt) { removed++ }, `DELETE FROM records WHERE rowid IN
		(SELECT rowid FROM records WHERE expires <= ? LIMIT ?) RETURNING 1`, s.cfg.Time(), store.MostSwept)
	return removed, err
}

// rowsOfKey returns rows of a key in the order in which they stand in its index.
const rowsOfKey = "SELECT " + store.Columns + ", rowid FROM records " +
	"WHERE key = ? AND rowid > ? ORDER BY rowid LIMIT ?"

// ofKey returns rows that a key seals, after a place, and the place of the last one.
func (c *conn) ofKey(key, after string) (rows []store.Row, last string, err error) {
	at := int64(0)
	if after != "" {
		if at, err = strconv.ParseInt(after, 10, 64); err != nil {
			return nil, "", err
		}
	}
	err = c.run(func(s *sqlite3.Stmt) {
		rows, at = append(rows, rowAt(s)), s.ColumnInt64(8)
	}, rowsOfKey, key, at, store.MostSwept)
	return rows, strconv.FormatInt(at, 10), err
}

// sealAgain writes rows as another key seals them.
func (c *conn) sealAgain(rows []store.Row) error {
	for _, row := range rows {
		if err := c.run(nil, "UPDATE records SET key = ?, value = ? WHERE kind = ? AND id = ?", row.Key,
			row.Value,
			row.Kind, row.ID); err != nil {
			return err
		}
	}
	return nil
}

// errRows is that rows which are to be written cannot be read.
var errRows = errors.New("read the rows that are to be written")

// Replace puts rows in the place of all that there are.
func (s *Store) Replace(ctx context.Context, rows iter.Seq2[store.Row, error]) (int, error) {
	now, replaced := s.cfg.Time(), 0
	err := s.write(ctx, func(c *conn) error {
		if err := c.run(nil, "DELETE FROM records"); err != nil {
			return err
		}
		for row, err := range rows {
			if err != nil {
				return fmt.Errorf("%w: %w", errRows, err)
			}
			if row.Expires <= now {
				continue
			}
			if err := insertRow(c, row); err != nil {
				return err
			}
			replaced++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return replaced, nil
}
