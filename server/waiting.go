package server

import (
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// Calls of one tenant that wait for their clients: for answers, or to be tried again. A human may take long, so they
// give back their places among the requests in work, and have these instead.
const (
	maxWaiting      = 256      // one user half of them
	maxWaitingBytes = 16 << 20 // of their requests' bodies, which count among maxBodies all the while
)

// waiting are the calls that wait for their clients. It is safe for concurrent use.
type waiting struct {
	mu    sync.Mutex     // guards the fields below
	calls map[string]int // by tenant, and by tenant and user
	bytes map[string]int64
}

func newWaiting() *waiting {
	return &waiting{calls: make(map[string]int), bytes: make(map[string]int64)}
}

// enter takes a place for a call whose request has a body of that many bytes. leave gives it back and is called once;
// it is nil when there is none.
func (a *waiting) enter(c gateway.Caller, body int64) (leave func()) {
	tenant := c.Tenant.ID
	user := c.Principal.User().Key()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls[tenant] >= maxWaiting || a.calls[user] >= maxWaiting/2 || a.bytes[tenant]+body > maxWaitingBytes {
		return nil
	}
	a.calls[tenant]++
	a.calls[user]++
	a.bytes[tenant] += body
	return func() { a.leave(tenant, user, body) }
}

func (a *waiting) leave(tenant, user string, body int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range []string{tenant, user} {
		if a.calls[key]--; a.calls[key] == 0 {
			delete(a.calls, key)
		}
	}
	if a.bytes[tenant] -= body; a.bytes[tenant] == 0 {
		delete(a.bytes, tenant)
	}
}
