package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

const (
	maxAccessLines = 20 // lines of the log about one reload
	maxAccessNames = 5  // names of items in one of them
)

// accessLog tells the log what reloads change for callers, as the command plan would. It
// does so aside: a reload does not wait for it, and the work takes turns with that of
// calls.
type accessLog struct {
	gateway *gateway.Gateway
	log     *slog.Logger
	reloads chan [2]gateway.Access // before and after what is to be told
}

func newAccessLog(g *gateway.Gateway, log *slog.Logger) *accessLog {
	return &accessLog{g, log, make(chan [2]gateway.Access, 1)}
}

// reloaded notes that access is another one than before. Reloads that come faster than
// they are told become one. It is for one goroutine, that of the reloads.
func (a *accessLog) reloaded(before gateway.Access) {
	select {
	case earlier := <-a.reloads:
		before = earlier[0]
	default:
	}
	a.reloads <- [2]gateway.Access{before, a.gateway.Access()}
}

// Run tells of reloads until ctx ends.
func (a *accessLog) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case access := <-a.reloads:
			a.tell(ctx, access[0], access[1])
		}
	}
}

// tell tells what changed. Of servers that the reload has restarted, and that have not
// said yet what they offer, it tells which patterns changed.
func (a *accessLog) tell(ctx context.Context, before, after gateway.Access) {
	found, err := a.gateway.Compare(ctx, before, after)
	if err != nil {
		return // the process stops
	}
	for i := range found[:min(len(found), maxAccessLines)] {
		text := found[i].Text(maxAccessNames)
		if more := len(found) - maxAccessLines; more > 0 && i == maxAccessLines-1 {
			text = fmt.Sprintf("%d more changes: drawbridge plan shows them all", more+1)
		}
		a.log.InfoContext(ctx, "the reload changes who may use what", slog.String("change", text))
	}
}
