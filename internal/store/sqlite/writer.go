package sqlite

import (
	"context"
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

const mostWrites = 256 // that one transaction takes

// write is something to be done in a transaction. Its goroutine waits for done.
type write struct {
	ctx    context.Context //nolint:containedctx // the goroutine that writes has another one
	do     func(c *conn) ([]int64, error)
	rows   []int64       // that do has returned; to be read after done
	failed error         // to be read after done
	done   chan struct{} // closed when it is committed or has failed
}

// write has something done and committed, and returns what do returns. If ctx ends before
// that is known, it may be done or not.
func (s *Store) write(ctx context.Context, do func(c *conn) ([]int64, error)) ([]int64, error) {
	w := &write{ctx: ctx, do: do, done: make(chan struct{})}
	select {
	case s.writes <- w:
	case <-s.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case <-w.done:
		return w.rows, w.failed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// writer writes until the store is closed.
func (s *Store) writer(c *conn) {
	defer close(s.over)
	for batch := s.next(); batch != nil; batch = s.next() {
		err := s.use(&c, false, func(c *conn) error { return commit(c, batch) })
		for _, w := range batch {
			if err != nil {
				w.rows, w.failed = nil, err // what it met in the transaction was undone
			}
			close(w.done)
		}
	}
	if c != nil {
		s.ended = c.shut()
	}
}

// next waits for something to write and returns all that waits, at most mostWrites. It
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
		if w.rows, err = w.do(c); err != nil {
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

// change runs statements in one transaction.
func (s *Store) change(ctx context.Context, statements ...store.Statement) ([]int64, error) {
	return s.write(ctx, func(c *conn) (rows []int64, err error) {
		for _, of := range statements {
			if err := c.run(nil, of.Text, of.Values...); err != nil {
				return nil, err
			}
			rows = append(rows, c.Changes())
		}
		return rows, nil
	})
}

// anew has fill insert rows in the place of all that there are.
func (s *Store) anew(ctx context.Context, fill func(insert func(store.Statement) error) error) error {
	_, err := s.write(ctx, func(c *conn) ([]int64, error) {
		if err := c.run(nil, "DELETE FROM records"); err != nil {
			return nil, err
		}
		return nil, fill(func(rows store.Statement) error { return c.run(nil, rows.Text, rows.Values...) })
	})
	return err
}
