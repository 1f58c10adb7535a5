package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/drawbridge-mcp/drawbridge/internal/pgdial"
)

const (
	endTime   = time.Second      // for what is still to be said at the end of a connection
	queryTime = 30 * time.Second // of one query whose caller sets no end
)

// connect opens a connection for one query.
func (s *Server) connect(ctx context.Context) (*pgconn.PgConn, error) {
	return pgdial.Connect(ctx, s.file, pgdial.Options{
		MaxMessage: maxRow,
		Settings: map[string]string{
			"default_transaction_read_only": "on",
			"statement_timeout":             milliseconds(ctx), "bytea_output": "hex", "datestyle": "ISO",
			"extra_float_digits":                  "1",
			"idle_in_transaction_session_timeout": strconv.FormatInt(2*queryTime.Milliseconds(), 10),
		},
	})
}

// milliseconds returns how long a statement may take, for the server.
func milliseconds(ctx context.Context) string {
	left := queryTime
	if deadline, ok := ctx.Deadline(); ok {
		left = max(time.Until(deadline), time.Millisecond)
	}
	return strconv.FormatInt(max(left.Milliseconds(), 1), 10)
}

// end closes the connection, which rolls the transaction back. What still runs at the
// server is cancelled first: the server would notice that nobody waits only when it has
// the first row.
func (r *running) end(ctx context.Context) {
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer stop()
	if r.busy {
		_ = r.CancelRequest(limited) // the statement's own timeout ends it otherwise
	}
	_ = r.Close(limited) // nothing was written that could be lost
}
