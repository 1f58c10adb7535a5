package gateway

import (
	"maps"
	"slices"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// ongoing are the uses of items that go on: calls under way, and calls that a source
// keeps open in wait for answers. A reload or a change of keys may take from a caller
// what it has begun, so each of them can be ended. It is safe for concurrent use.
type ongoing struct {
	mu   sync.Mutex // guards the field below
	uses map[*begun]struct{}
}

// begun is one use that goes on. It is safe for concurrent use.
type begun struct {
	principal *auth.Principal
	item      *registry.Item
	parked    bool // nobody runs it: its source keeps it open in wait for answers

	mu      sync.Mutex // guards the fields below
	revoked bool
	end     ender // ends what the use waits for now; nil: nothing
}

// ender ends something. Close does not wait, and may be called more than once.
type ender interface{ Close() }

// endFunc is a function as an ender.
type endFunc func()

func (f endFunc) Close() { f() }

// endBy lets revoke call end from now on, and calls it if the use was revoked already.
// What end was before is over.
func (u *begun) endBy(end ender) {
	u.mu.Lock()
	u.end = end
	revoked := u.revoked
	u.mu.Unlock()
	if revoked {
		end.Close()
	}
}

// revoke ends the use, now and in all that it begins later.
func (u *begun) revoke() {
	u.mu.Lock()
	u.revoked = true
	end := u.end
	u.mu.Unlock()
	if end != nil {
		end.Close()
	}
}

// isRevoked tells whether the use was revoked.
func (u *begun) isRevoked() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.revoked
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
