package gateway

import (
	"sync"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// grants are those of all tenants, by what they are made of. What they hold is held by
// the tenants as well.
type grants struct {
	// there are other replicas, so what is seen here may be compared with what is seen
	// there; set by New
	compared bool

	mu        sync.Mutex          // guards the fields below
	catalogue *registry.Catalogue // that they are of; another one begins them anew
	known     map[grantKey]*grant
}

// grantKey is what a grant depends on. Tenants with the same servers have the same view.
type grantKey struct {
	view    *registry.View
	allowed bitset
}

// of returns the grant of what is allowed, which is made if no tenant has it.
func (k *grants) of(s *sight, allowed bitset) *grant {
	key := grantKey{s.view, allowed}
	if known := k.find(key); known != nil {
		return known
	}
	made := newGrant(s.view, allowed, k.compared)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.catalogue != s.catalogue {
		k.catalogue, k.known = s.catalogue, make(map[grantKey]*grant)
	}
	if other := k.known[key]; other != nil { // made meanwhile
		return other
	}
	k.known[key] = made
	return made
}

func (k *grants) find(key grantKey) *grant {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[key]
}

// forget drops all grants, because those who have them are gone.
func (k *grants) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.catalogue, k.known = nil, nil
}
