package gateway

import (
	"sync"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// callerViews are those of all tenants, by what they are made of. What they hold is held by
// the tenants as well.
type callerViews struct {
	// there are other replicas, so what is seen here may be compared with what is seen
	// there; set by New
	compared bool

	mu        sync.Mutex          // guards the fields below
	catalogue *registry.Catalogue // that they are of; another one begins them anew
	known     map[callerViewKey]*callerView
}

// callerViewKey is what a callerView depends on. Tenants with the same servers have the
// same view.
type callerViewKey struct {
	view    *registry.View
	allowed bitset
}

// of returns the view of what is allowed, which is made if no tenant has it.
func (k *callerViews) of(s *tenantView, allowed bitset) *callerView {
	key := callerViewKey{s.view, allowed}
	if known := k.find(key); known != nil {
		return known
	}
	made := newCallerView(s.view, allowed, k.compared)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.catalogue != s.catalogue {
		k.catalogue, k.known = s.catalogue, make(map[callerViewKey]*callerView)
	}
	if other := k.known[key]; other != nil { // made meanwhile
		return other
	}
	k.known[key] = made
	return made
}

func (k *callerViews) find(key callerViewKey) *callerView {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[key]
}

// forget drops all views, because those who have them are gone.
func (k *callerViews) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.catalogue, k.known = nil, nil
}
