package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// entry is what the log says of the request of a stream when the stream ends. By then the
// request itself is long gone.
type entry struct {
	id, tenant, remote      string
	route, httpMethod, path string
	method, era             string // "" unless known
	started                 time.Time
}

// entryOf returns the entry of a request. It copies the texts that are part of what the
// client sent, or all of that would stay in memory.
func entryOf(x *exchange, r *http.Request) entry {
	return entry{
		id: strings.Clone(x.id), tenant: x.principal.TenantID, remote: strings.Clone(x.remote),
		route: x.service.config.RouteOf(r), httpMethod: strings.Clone(cut(r.Method)), path: strings.Clone(cut(r.URL.Path)),
		method: strings.Clone(cut(x.method)), era: eraName(x.era), started: x.started,
	}
}

// exchange returns the request of the stream, as far as the log needs it.
func (e *entry) exchange() *exchange {
	return &exchange{
		id: e.id, remote: e.remote, method: e.method, started: e.started, status: http.StatusOK,
		caller: gateway.Caller{Tenant: &gateway.Tenant{ID: e.tenant}},
	}
}

// context returns a context whose records carry the id of the request and the tenant.
func (e *entry) context() context.Context {
	return context.WithValue(context.Background(), exchangeKey{}, e.exchange())
}

// logStream does for a stream what logRequest does for a request: it writes the line, and
// counts.
func (s *service) logStream(ctx context.Context, e *entry, outcome string) {
	now, x := time.Now(), e.exchange()
	x.outcome = outcome
	s.metrics.Request(e.route, e.httpMethod, x.status, e.era, now.Sub(e.started))
	s.logLine(ctx, now, x, e.httpMethod, e.path)
}
