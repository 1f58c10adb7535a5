package main

import (
	"github.com/drawbridge-mcp/drawbridge/internal/fairqueue"
	"github.com/drawbridge-mcp/drawbridge/metrics"
)

// workUse returns what the metrics tell of those who wait for a slot.
func workUse(q *fairqueue.Queue) metrics.WorkUse {
	return metrics.WorkUse{Slots: q.Slots(), Busy: q.Busy(), Waiting: q.Waiting()}
}
