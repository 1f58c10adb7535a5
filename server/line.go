package server

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// LineHandler is what the handler of a logger may be besides, so that the line of each
// request costs little. A slog.Record takes memory for as many attributes as that line
// has.
type LineHandler interface {
	// HandleLine does what Handle does with a record of these. It does not keep attrs.
	HandleLine(ctx context.Context, at time.Time, level slog.Level, message string, attrs []slog.Attr) error
}

// lineHandlerOf returns the LineHandler that a handler is, or adds request ids to; nil if
// there is none.
func lineHandlerOf(handler slog.Handler) LineHandler {
	if h, ok := handler.(logHandler); ok {
		handler = h.Handler
	}
	lines, _ := handler.(LineHandler)
	return lines
}

// attributes keeps the memory for the attributes of lines.
var attributes = sync.Pool{New: func() any {
	attrs := make([]slog.Attr, 0, 16)
	return &attrs
}}

// logLine writes the line of a request that ended at that time.
func (s *service) logLine(ctx context.Context, at time.Time, x *exchange, httpMethod, path string) {
	if !s.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	room := attributes.Get().(*[]slog.Attr)
	attrs := (*room)[:0]
	attrs = append(attrs,
		slog.String("http_method", cut(httpMethod)), slog.String("path", cut(path)), slog.Int("status",
			x.status),
		slog.String("method", cut(x.method)), slog.String("tool", cut(x.tool)), slog.String("outcome",
			x.outcomeWord()),
		slog.Float64("duration_seconds", at.Sub(x.started).Seconds()), slog.String("remote", x.remote))
	if code := x.outcome; strings.HasPrefix(code, "DB-") || strings.HasPrefix(code, "error ") {
		attrs = append(attrs, slog.String("code", code))
	}
	if x.extensions != nil {
		attrs = append(attrs, slog.String("extensions", toldExtensions(x.extensions)))
	}
	if x.missed != "" {
		attrs = append(attrs, slog.String("reason", x.missed))
	}
	attrs = appendRefusal(append(attrs, x.refusedOrigin...), x.refused)
	if x.principal.Name != "" {
		attrs = append(attrs, slog.String("name", legible(x.principal.Name)))
	}
	if s.lines == nil {
		s.log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
	} else {
		attrs = x.appendIdentity(attrs)
		// as slog does: there is nobody to tell
		_ = s.lines.HandleLine(ctx, at, slog.LevelInfo, "request", attrs)
	}
	clear(attrs) // or texts of this request would live on in the pool
	*room = attrs
	attributes.Put(room)
}

// outcomeWord returns how the request ended, in the words of the audit.
func (x *exchange) outcomeWord() string {
	switch {
	case !strings.HasPrefix(x.outcome, "DB-") && !strings.HasPrefix(x.outcome, "error "):
		return x.outcome
	case x.ended != "":
		return x.ended
	case x.refused != nil:
		return "unauthenticated"
	case x.status == http.StatusOK && strings.HasPrefix(x.outcome, "error "):
		return "invalid_request" // of the door: other errors are the desk's
	}
	return cmp.Or(gateway.OutcomeOf(x.outcome), recordedAs(x.status))
}

// appendIdentity appends which request a line is about, as far as is known.
func (x *exchange) appendIdentity(attrs []slog.Attr) []slog.Attr {
	attrs = append(attrs, slog.String("request_id", x.id))
	if x.caller.Tenant != nil {
		attrs = append(attrs, slog.String("tenant", x.caller.Tenant.ID))
	}
	return attrs
}
