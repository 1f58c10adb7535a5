package main

import (
	"maps"

	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

// load returns what each server that the fleet connects to costs now. No lock of the fleet is held while they count.
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

func (f *fleet) loadsForMetrics() map[string]metrics.UpstreamLoad {
	out := map[string]metrics.UpstreamLoad{}
	for name, load := range f.load() {
		out[name] = metrics.UpstreamLoad(load)
	}
	return out
}

func (f *fleet) loadsForView() map[string]admin.Server {
	out := map[string]admin.Server{}
	for name, load := range f.load() {
		out[name] = admin.Server(load)
	}
	return out
}
