package directory

import (
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// TestWhoIsTakenOverMeanwhileIsLeftAlone does something with sessions of which all others
// are in use when the first have had their turn, as one that a request takes over while a
// sweep waits for Redis.
func TestWhoIsTakenOverMeanwhileIsLeftAlone(t *testing.T) {
	t.Parallel()
	guard := exchange.Guard{Metrics: metrics.New(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler)}
	d := &Directory{Roster: sessions.NewRoster(guard, share.New(share.DefaultMemory), func(*sessions.Session) {})}
	for range 3 * atOnce {
		one := &ticket.Ticket{Key: ticket.NewKey()}
		l := sessions.New(d.Roster, one, auth.Principal{TenantID: "acme", Subject: "ann"}, d.opener, 0, true)
		if _, _, refused := d.Roster.Add(l, sessions.Bounds{Tenant: 3 * atOnce, User: 3 * atOnce}); refused != nil {
			t.Fatal(refused.Err)
		}
	}
	var inUse atomic.Bool
	var ended atomic.Int64
	d.Each(t.Context(), func(*sessions.Session) bool { return !inUse.Load() }, func(*sessions.Session) {
		inUse.Store(true)
		ended.Add(1)
	})
	if got := ended.Load(); got < 1 || got > atOnce {
		t.Errorf("%d sessions had their turn, want none that was in use before it", got)
	}
}
