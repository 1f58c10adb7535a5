package gateway

import (
	"sync"
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// callSlot is one of the slots for calls at once. The call holds it, and so may work of
// the source that goes on after the call has returned, such as a call of a legacy server
// that waits for answers. The slot is given back when the last of them lets go.
//
// What the slot is made of stands in fields of its own and not in functions that give it
// back, because every call has one and each such function would be an allocation.
type callSlot struct {
	calls    *share.Budget // that it was taken from
	user     share.User
	bulkhead *bulkhead // where the call is counted at the server of its item; nil: nowhere
	counters [levels]counter
	counted  func() // ends the count of the call at that server in the metrics
	holders  atomic.Int32
}

// take begins to hold the slot, which was taken from calls for the user.
func (p *callSlot) take(calls *share.Budget, user share.User) {
	p.calls, p.user = calls, user
	p.holders.Store(1)
}

// hold keeps the slot taken until release is called. If the slot was given back
// already, ok is false and release does nothing.
func (p *callSlot) hold() (release func(), ok bool) {
	for {
		n := p.holders.Load()
		if n == 0 {
			return func() {}, false
		}
		if p.holders.CompareAndSwap(n, n+1) {
			return sync.OnceFunc(p.release), true
		}
	}
}

// release ends one hold of the slot, and gives the slot back if that was the last one.
func (p *callSlot) release() {
	if p.holders.Add(-1) > 0 {
		return
	}
	if p.bulkhead != nil {
		p.counted()
		p.bulkhead.release(p.counters)
	}
	p.calls.Give(p.user, 1)
}

// shared tells whether anybody besides the call itself holds the slot.
func (p *callSlot) shared() bool { return p.holders.Load() > 1 }

// inUse tells whether anybody holds the slot.
func (p *callSlot) inUse() bool { return p.holders.Load() > 0 }
