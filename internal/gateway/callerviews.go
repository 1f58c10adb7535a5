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

	known sync.Map // callerViewKey → *callerView
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
	known, ok := k.known.Load(key)
	if !ok {
		known, _ = k.known.LoadOrStore(key, newCallerView(s.view, allowed, k.compared))
	}
	return known.(*callerView)
}

// forget drops all views, because the catalogue or the tenants have changed: nobody asks
// for them again.
func (k *callerViews) forget() { k.known.Clear() }
