package main

import (
	"maps"

	"github.com/drawbridge-mcp/drawbridge/server/admin"
)

// loads returns what each server that the fleet connects to costs now, by name. An
// upstream has locks of its own to count, so it is asked after mu has been released.
func (f *fleet) loads() map[string]admin.Server {
	f.mu.Lock()
	all := maps.Clone(f.connected)
	f.mu.Unlock()
	out := make(map[string]admin.Server, len(all))
	for name, u := range all {
		out[name] = admin.Server(u.Load())
	}
	return out
}
