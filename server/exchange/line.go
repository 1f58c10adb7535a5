package exchange

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// attributes keeps the memory for the attributes of lines.
var attributes = sync.Pool{New: func() any {
	attrs := make([]slog.Attr, 0, 16)
	return &attrs
}}

// logLine writes the line of a request that ended at that time.
func (s *Service) logLine(ctx context.Context, at time.Time, x *Exchange, httpMethod, path string) {
	if !s.Log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	buffer := attributes.Get().(*[]slog.Attr)
	attrs := (*buffer)[:0]
	attrs = append(attrs,
		slog.String("http_method", Cut(httpMethod)), slog.String("path", Cut(path)), slog.Int("status",
			x.Status),
		slog.String("method", Cut(x.Method)), slog.String("tool", Cut(x.Tool)), slog.String("outcome",
			x.auditOutcome()),
		slog.Float64("duration_seconds", at.Sub(x.Started).Seconds()), slog.String("remote", x.Remote))
	if code := x.Outcome; strings.HasPrefix(code, "DB-") || strings.HasPrefix(code, "error ") {
		attrs = append(attrs, slog.String("code", code))
	}
	if x.extensions != nil {
		attrs = append(attrs, slog.String("extensions", loggedExtensions(x.extensions)))
	}
	if x.Missed != "" {
		attrs = append(attrs, slog.String("reason", x.Missed))
	}
	attrs = appendRefusal(append(attrs, x.RefusedOrigin...), x.Refused)
	if x.Principal.Name != "" {
		attrs = append(attrs, slog.String("name", legible(x.Principal.Name)))
	}
	if s.lines == nil {
		s.Log.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
	} else {
		attrs = x.appendIdentity(attrs)
		// as slog does: there is nobody to tell
		_ = s.lines.HandleLine(ctx, at, slog.LevelInfo, "request", attrs)
	}
	clear(attrs) // or texts of this request would live on in the pool
	*buffer = attrs
	attributes.Put(buffer)
}

// auditOutcome returns how the request ended, in the words of the audit.
func (x *Exchange) auditOutcome() string {
	switch {
	case !strings.HasPrefix(x.Outcome, "DB-") && !strings.HasPrefix(x.Outcome, "error "):
		return x.Outcome
	case x.Ended != "":
		return x.Ended
	case x.Refused != nil:
		return "unauthenticated"
	case x.Status == http.StatusOK: // such as for a cursor: nothing else of it is on record
		return cmp.Or(gateway.OutcomeOf(x.Outcome), "invalid_request")
	}
	return recordedAs(x.Status, x.Outcome)
}

// Logged writes one line for each request that is answered here, or sums up those of a
// caller that is refused again and again, and counts the request. When the request is
// over it gives back what that held.
func (s *Service) Logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.logRequest(Of(w), r)
		next.ServeHTTP(w, r)
	})
}

func (s *Service) logRequest(x *Exchange, r *http.Request) {
	x.Release()
	if x.Taken {
		return // LogStream does it when the stream ends
	}
	now := time.Now()
	if !x.Forwarded { // it is counted where the client is
		s.Metrics.Request(s.config.RouteOf(r), r.Method, x.Status, eraNames[x.Era], now.Sub(x.Started))
	}
	if s.hasOwnLine(x) && x.Outcome != OutcomeForwarded && x.Status != statusElsewhere {
		s.logLine(x.Context(), now, x, r.Method, r.URL.Path)
	}
}

// LogEntry is what the log says of the request of a stream when the stream ends. By then
// the request itself is long gone.
type LogEntry struct {
	id, tenant, name, remote string
	route, httpMethod, path  string
	method, era              string      // "" unless known
	extensions               mcp.RawJSON // that the client declares, as far as they are logged; nil: none
	started                  time.Time
}

// EntryOf returns the entry of a request. It copies the texts that are part of what the
// client sent, or all of that would stay in memory.
func EntryOf(x *Exchange) LogEntry {
	return LogEntry{
		id: strings.Clone(x.ID), tenant: x.Principal.TenantID, name: x.Principal.Name,
		remote: strings.Clone(x.Remote),
		route:  x.service.config.RouteOf(x.Request), httpMethod: strings.Clone(Cut(x.Request.Method)),
		path: strings.Clone(Cut(x.Request.URL.Path)), method: strings.Clone(Cut(x.Method)),
		era: eraNames[x.Era], started: x.Started,
		extensions: mcp.ExtensionsNamed(strings.Fields(loggedExtensions(x.extensions))...).JSON(),
	}
}

// exchange returns the request of the stream, as far as the log needs it.
func (e *LogEntry) exchange() *Exchange {
	return &Exchange{
		ID: e.id, Remote: e.remote, Method: e.method, Started: e.started, Status: http.StatusOK,
		Caller:    gateway.Caller{Tenant: &gateway.Tenant{ID: e.tenant}},
		Principal: auth.Principal{Name: e.name}, extensions: e.extensions,
	}
}

// Context returns a context whose records carry the id of the request and the tenant.
func (e *LogEntry) Context() context.Context {
	return context.WithValue(context.Background(), exchangeKey{}, e.exchange())
}

// LogStream does for a stream what logRequest does for a request: it writes the line, and
// counts.
func (s *Service) LogStream(ctx context.Context, e *LogEntry, outcome string) {
	now, x := time.Now(), e.exchange()
	x.Outcome = outcome
	s.Metrics.Request(e.route, e.httpMethod, x.Status, e.era, now.Sub(e.started))
	s.logLine(ctx, now, x, e.httpMethod, e.path)
}
