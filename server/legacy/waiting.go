package legacy

import (
	"math"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// maxWaiting bounds the calls of one tenant that wait for their clients: for answers, or
// until they are tried again. One user may have half of it. A human may take long, so
// such a call gives back its slot among the requests in work and takes one of these
// instead.
const maxWaiting = 256

// waiting counts the calls that wait for their clients. It is safe for concurrent use.
type waiting struct {
	slots  *share.Budget // only a tenant and a user have a bound; memory bounds all
	memory *share.Budget
}

func newWaiting(memory *share.Budget) *waiting {
	return &waiting{slots: share.New(math.MaxInt64), memory: memory}
}

// enter takes a slot for a call whose request holds so many bytes. If it holds
// none, because its slot among the requests in work covers it, enter counts what that
// covers. release gives the slot back and is called once; it is nil if there is no slot
// or no memory.
func (a *waiting) enter(c gateway.Caller, size int64) (release func()) {
	user, memory := share.User(c.Principal.User()), int64(0)
	if size == 0 {
		memory = share.Covered
	}
	if a.slots.TakeWithin(user, 1, share.Bounds{Tenant: maxWaiting, User: maxWaiting / 2}) != nil {
		return nil
	}
	if a.memory.Take(user, memory) != nil {
		a.slots.Give(user, 1)
		return nil
	}
	return func() {
		a.slots.Give(user, 1)
		a.memory.Give(user, memory)
	}
}
