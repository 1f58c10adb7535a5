package main

import (
	"maps"

	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

// loads returns what each server that the fleet connects to costs now, by name. The
// functions that count belong to package upstream and have locks of their own, so they
// are called after mu has been released.
func (f *fleet) loads() map[string]admin.Server {
	f.mu.Lock()
	counts := maps.Clone(f.counts)
	f.mu.Unlock()
	out := make(map[string]admin.Server, len(counts))
	for name, count := range counts {
		out[name] = admin.Server(count())
	}
	return out
}

// loadsForMetrics is loads in the type of package metrics.
func (f *fleet) loadsForMetrics() map[string]metrics.UpstreamLoad {
	out := map[string]metrics.UpstreamLoad{}
	for name, load := range f.loads() {
		out[name] = metrics.UpstreamLoad(load)
	}
	return out
}
