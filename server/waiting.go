package server

import (
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// Bounds of the calls of one tenant that wait for their clients: for answers, or until they are tried again. A human
// may take long, so such a call gives back its place among the requests in work and takes one of these instead.
const (
	maxWaiting      = 256      // of which one user may have half
	maxWaitingBytes = 16 << 20 // of the bodies of their requests, which stay leased all the while
)

// waiting counts the calls that wait for their clients. It is safe for concurrent use.
type waiting struct {
	mu    sync.Mutex     // guards the fields below
	calls map[string]int // by tenant, and by user
	bytes map[string]int64
}

func newWaiting() *waiting {
	return &waiting{calls: make(map[string]int), bytes: make(map[string]int64)}
}

// enter takes a place for a call whose request has a body of that many bytes. leave gives the place back and is called
// once; it is nil if there is no place.
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
