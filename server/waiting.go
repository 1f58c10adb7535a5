package server

import (
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// maxWaiting bounds the calls of one tenant that wait for their clients: for answers, or until they are tried again. One
// user may have half of it. A human may take long, so such a call gives back its place among the requests in work and
// takes one of these instead.
const maxWaiting = 256

// waiting counts the calls that wait for their clients. It is safe for concurrent use.
type waiting struct {
	memory *share.Budget

	mu    sync.Mutex     // guards the field below
	calls map[string]int // by tenant, and by user
}

func newWaiting(memory *share.Budget) *waiting {
	return &waiting{memory: memory, calls: make(map[string]int)}
}

// enter takes a place for a call whose request has leased so many bytes. If it has leased none, because its place among
// the requests in work covers it, enter counts what that covers. leave gives the place back and is called once; it is
// nil if there is no place or no memory.
func (a *waiting) enter(c gateway.Caller, leased int64) (leave func()) {
	tenant, who := c.Tenant.ID, c.Principal.User()
	user, memory := who.Key(), int64(0)
	if leased == 0 {
		memory = share.Covered
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls[tenant] >= maxWaiting || a.calls[user] >= maxWaiting/2 || a.memory.Take(share.User(who), memory) != nil {
		return nil
	}
	a.calls[tenant]++
	a.calls[user]++
	return func() {
		a.leave(tenant, user)
		a.memory.Give(share.User(who), memory)
	}
}

func (a *waiting) leave(tenant, user string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range []string{tenant, user} {
		if a.calls[key]--; a.calls[key] == 0 {
			delete(a.calls, key)
		}
	}
}
