package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/drawbridge-mcp/drawbridge/internal/store"
)

const attempts = 3 // of what the server ended in favour of another transaction

// batch runs statements in one transaction and one round trip, and returns how many rows
// each of them has changed. After an error nothing is changed.
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

// change runs a batch with a connection of the store, if there is anything to do, and
// again when the server has ended it in favour of another transaction: nothing of it was
// done then.
func (s *Store) change(ctx context.Context, statements ...store.Statement) (rows []int64, err error) {
	if len(statements) == 0 {
		return nil, nil
	}
	err = s.conns.with(ctx, func(ctx context.Context, c *pgconn.PgConn) error {
		for range attempts {
			rows, err = batch(ctx, c, statements...)
			says, ok := errors.AsType[*pgconn.PgError](err)
			if !ok || says.Code != "40P01" && says.Code != "40001" { // deadlock, serialization failure
				break
			}
		}
		return err
	})
	return rows, err
}

// anew has fill insert rows in the place of all that there are, over a connection of its
// own. Others wait until it is over.
func (s *Store) anew(ctx context.Context, fill func(insert func(store.Statement) error) error) error {
	return s.conns.alone(ctx, func(c *pgconn.PgConn) error {
		err := execute(ctx, c, "BEGIN; LOCK TABLE records IN EXCLUSIVE MODE; DELETE FROM records")
		if err != nil {
			return err
		}
		err = fill(func(rows store.Statement) error { return run(ctx, c, rows, nil) })
		if err != nil {
			return err
		}
		return execute(ctx, c, "COMMIT")
	})
}
