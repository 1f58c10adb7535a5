package server

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/drawbridge-mcp/drawbridge/metrics"
)

// guard keeps a panic from ending the process where no HTTP handler recovers it. It is
// safe for concurrent use.
type guard struct {
	metrics *metrics.Metrics
	log     *slog.Logger
}

// safely calls do. It is false after a panic, which is logged with what ctx says of the
// request, and counted. Whoever waits for do must hear of it from the caller, and what do
// locks it must unlock by defer.
func (g *guard) safely(ctx context.Context, do func()) (whole bool) {
	defer func() {
		if problem := recover(); problem != nil {
			g.panicked(ctx, problem)
		}
	}()
	do()
	return true
}

// panicked logs and counts a panic that was recovered from.
func (g *guard) panicked(ctx context.Context, problem any) {
	g.metrics.Panicked()
	g.log.ErrorContext(ctx, "panic", "problem", problem, "stack", string(debug.Stack()))
}
