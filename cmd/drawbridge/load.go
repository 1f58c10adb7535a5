package main

import (
	"maps"

	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

// load returns what each server that the fleet connects to costs now, by name. The
// functions that count belong to package upstream and have locks of their own, so they
// are called after mu has been released.
func (f *fleet) load() map[string]upstream.Load {
	f.mu.Lock()
	counts := maps.Clone(f.loads)
	f.mu.Unlock()
	out := make(map[string]upstream.Load, len(counts))
	for name, count := range counts {
		out[name] = count()
	}
	return out
}

// loadsForMetrics is load in the type of package metrics, which does not import package
// upstream.
func (f *fleet) loadsForMetrics() map[string]metrics.UpstreamLoad {
	out := map[string]metrics.UpstreamLoad{}
	for name, load := range f.load() {
		out[name] = metrics.UpstreamLoad(load)
	}
	return out
}

// loadsForView is load in the type of the operator's page.
func (f *fleet) loadsForView() map[string]admin.Server {
	out := map[string]admin.Server{}
	for name, load := range f.load() {
		out[name] = admin.Server(load)
	}
	return out
}
