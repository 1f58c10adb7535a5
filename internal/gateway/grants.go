package gateway

import (
	"sync"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// grants are those of all tenants, by what they are made of. What they hold is held by the tenants as well.
type grants struct {
	compared bool // there are other replicas, so what is seen here may be compared with what is seen there; set by New

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

// bitset says of each of a number of things yes or no. It is comparable.
type bitset string

func (s bitset) has(i int) bool { return s[i/8]&(1<<(i%8)) != 0 }

// allowed says of each item of the view, kind after kind in the order of Kind's constants, whether the rules allow it.
func (t *Tenant) allowed(view *registry.View, rules ruleSet) bitset {
	set := make([]byte, (len(view.Tools)+len(view.Prompts)+len(view.Resources)+len(view.Templates)+7)/8)
	n := 0
	add := func(item *registry.Item) {
		if t.allows(rules, item) {
			set[n/8] |= 1 << (n % 8)
		}
		n++
	}
	for _, tool := range view.Tools {
		add(&tool.Item)
	}
	for _, prompt := range view.Prompts {
		add(&prompt.Item)
	}
	for _, resource := range view.Resources {
		add(&resource.Item)
	}
	for _, template := range view.Templates {
		add(&template.Item)
	}
	return bitset(set)
}
