package gateway

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/lifetime"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// ongoing are the uses of items that go on: calls under way, and calls that a source
// keeps open in wait for answers. A reload or a change of keys may take from a caller
// what it has begun, so each of them can be ended. It is safe for concurrent use.
type ongoing struct {
	mu   sync.Mutex // guards the field below
	uses map[*begun]struct{}
}

// begun is one use that goes on.
type begun struct {
	principal *auth.Principal
	item      *registry.Item
	life      *lifetime.Context // of a call that runs; nil: its source keeps it open in wait for answers
	end       func()            // ends what the source keeps open; may be called more than once
	revoked   atomic.Bool
}

// revoke ends the use.
func (u *begun) revoke() {
	u.revoked.Store(true)
	if u.life != nil {
		u.life.End(ErrRevoked)
		return
	}
	u.end()
}

// add notes that a use goes on, until remove is called.
func (o *ongoing) add(u *begun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.uses[u] = struct{}{}
}

// remove notes that a use is over.
func (o *ongoing) remove(u *begun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.uses, u)
}

// all returns the uses that go on now.
func (o *ongoing) all() []*begun {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.uses))
}
