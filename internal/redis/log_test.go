package redis_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lifetime/lifetimetest"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/redis/redistest"
)

// lines is a handler that keeps the levels and messages of records.
type lines struct {
	mu  sync.Mutex // guards all
	all []string
}

func (*lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l *lines) WithGroup(string) slog.Handler          { return l }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, r.Level.String()+" "+r.Message)
	return nil
}

func (l *lines) wait(t *testing.T, want ...string) {
	t.Helper()
	redistest.Wait(t, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.all) < len(want) {
			return context.DeadlineExceeded
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.all[:min(len(l.all), len(want))], want) {
		t.Errorf("got %q, want %q", l.all, want)
	}
}

// TestAStartIsNotLoggedAsAFault begins with a server that is well, and with one that
// comes later. Neither asks anybody to act.
func TestAStartIsNotLoggedAsAFault(t *testing.T) {
	t.Parallel()
	server := redistest.StartOne(t)
	well, late := new(lines), new(lines)
	lifetimetest.Run(t, redis.New(redis.Config{
		Addresses: []string{server.Address}, Patience: redistest.Patience,
		Logger: slog.New(well),
	}).Run)
	well.wait(t, "INFO redis is used")
	server.Stop()
	well.wait(t, "INFO redis is used", "WARN redis is not used now")
	lifetimetest.Run(t, redis.New(redis.Config{
		Addresses: []string{server.Address}, Patience: redistest.Patience,
		Logger: slog.New(late),
	}).Run)
	late.wait(t, "INFO redis was not reached yet")
	late.wait(t, "INFO redis was not reached yet",
		"ERROR redis is still not used: docs/replicas.md says what each state means")
	server.Begin(t)
	late.wait(t, "INFO redis was not reached yet",
		"ERROR redis is still not used: docs/replicas.md says what each state means", "INFO redis is used")
}
