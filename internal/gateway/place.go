package gateway

import (
	"sync"
	"sync/atomic"
)

// place is one of the places among the calls at once. It is given back when the last of those who hold it lets go: the
// call itself, and what goes on beyond its return.
type place struct {
	leave   func()
	holders atomic.Int32
}

// take begins to hold the place that leave gives back.
func (p *place) take(leave func()) {
	p.leave = leave
	p.holders.Store(1)
}

// hold keeps the place until release is called, unless it was given back already.
func (p *place) hold() (release func()) {
	for {
		n := p.holders.Load()
		if n == 0 {
			return func() {}
		}
		if p.holders.CompareAndSwap(n, n+1) {
			return sync.OnceFunc(p.release)
		}
	}
}

// release lets go of the place once.
func (p *place) release() {
	if p.holders.Add(-1) == 0 {
		p.leave()
	}
}

// shared tells whether anybody but the call itself holds the place.
func (p *place) shared() bool { return p.holders.Load() > 1 }

// held tells whether anybody holds the place.
func (p *place) held() bool { return p.holders.Load() > 0 }
