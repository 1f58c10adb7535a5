package exchange

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/drawbridge-mcp/drawbridge/metrics"
)

// Guard keeps a panic from ending the process where no HTTP handler recovers it. It is
// safe for concurrent use.
type Guard struct {
	Metrics *metrics.Metrics
	Log     *slog.Logger
}

// Safely calls do. It is false after a panic, which is logged with what ctx says of the
// request, and counted. Whoever waits for do must hear of it from the caller, and what do
// locks it must unlock by defer.
func (g *Guard) Safely(ctx context.Context, do func()) (whole bool) {
	defer func() {
		if problem := recover(); problem != nil {
			g.Panicked(ctx, problem)
		}
	}()
	do()
	return true
}

// Panicked logs and counts a panic that was recovered from.
func (g *Guard) Panicked(ctx context.Context, problem any) {
	g.Metrics.Panicked()
	g.Log.ErrorContext(ctx, "panic", "problem", problem, "stack", string(debug.Stack()))
}
