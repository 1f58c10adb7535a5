package exchange

import (
	"context"
	"log/slog"
	"time"
)

// logHandler adds to each record which request it belongs to.
type logHandler struct{ slog.Handler }

// LogHandler returns a handler that adds request_id and tenant, as far as the context
// knows them, and passes records on to next.
func LogHandler(next slog.Handler) slog.Handler { return logHandler{next} }

// Handle implements slog.Handler.
func (h logHandler) Handle(ctx context.Context, record slog.Record) error {
	if x := FromContext(ctx); x != nil {
		var identity [2]slog.Attr
		record.AddAttrs(x.appendIdentity(identity[:0])...)
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name)}
}

// LineHandler is what the handler of a logger may be besides, so that the line of each
// request costs little. A slog.Record takes memory for as many attributes as that line
// has.
type LineHandler interface {
	// HandleLine does what Handle does with a record of these. It does not keep attrs.
	HandleLine(ctx context.Context, at time.Time, level slog.Level, message string, attrs []slog.Attr) error
}
