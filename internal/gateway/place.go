package gateway

import (
	"slices"
	"sync"
	"sync/atomic"
)

// place is one of the places for calls at once. The call holds it, and so may work of the source that goes on after the
// call has returned, such as a call of a legacy server that waits for answers. The place is given back when the last of
// them lets go.
type place struct {
	leaves  []func()
	holders atomic.Int32
}

// take begins to hold the place. leave gives it back.
func (p *place) take(leave func()) {
	p.add(leave)
	p.holders.Store(1)
}

// add makes something else part of the place, that is given back with it by leave. It is called before anybody but the
// call holds the place.
func (p *place) add(leave func()) { p.leaves = append(p.leaves, leave) }

// hold keeps the place taken until release is called. If the place was given back already, held is false and release
// does nothing.
func (p *place) hold() (release func(), held bool) {
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

// release ends one hold of the place, and gives the place back if that was the last one.
func (p *place) release() {
	if p.holders.Add(-1) > 0 {
		return
	}
	for _, leave := range slices.Backward(p.leaves) {
		leave()
	}
}

// shared tells whether anybody besides the call itself holds the place.
func (p *place) shared() bool { return p.holders.Load() > 1 }

// held tells whether anybody holds the place.
func (p *place) held() bool { return p.holders.Load() > 0 }
