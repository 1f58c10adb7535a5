package dial

import (
	"slices"
	"sync"
	"time"
)

// sweepEvery is the time between two sweeps. So a connection that nobody uses is closed
// at the latest after idleTimeout and a third.
const sweepEvery = idleTimeout / 3

// origin is what a connection goes to: without TLS, which is the scheme http, or with it.
type origin struct{ scheme, host string }

// pool keeps idle connections, each for its life. It hands out the one that was used
// last, so that those which are more than needed stay unused and are closed. It is safe
// for concurrent use, and closes connections without holding its mutex.
type pool struct {
	most int // per origin

	mu       sync.Mutex         // guards the fields below
	conns    map[origin][]*conn // the longest idle first
	sweeping bool               // a timer will call sweep; none runs while nothing is idle
}

// take returns an idle connection, nil if there is none. It may be one that the server
// has closed: begin finds that out. Those that are too old it drops.
func (p *pool) take(to origin) *conn {
	for {
		c := p.pop(to)
		if c == nil || time.Now().Before(c.until) {
			return c
		}
		c.cut()
	}
}

// pop removes and returns the connection that was used last, nil if there is none.
func (p *pool) pop(to origin) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := p.conns[to]
	if len(conns) == 0 {
		return nil
	}
	last := len(conns) - 1
	c := conns[last]
	conns[last] = nil
	p.conns[to] = conns[:last]
	return c
}

// put keeps a connection that its request is done with. It closes it if there are as many
// as may be kept.
func (p *pool) put(c *conn) {
	if !p.push(c) {
		c.cut()
	}
}

// push adds a connection and starts the sweeping if need be. It returns false if there
// are as many as may be kept.
func (p *pool) push(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns[c.to]) >= p.most {
		return false
	}
	c.until = time.Now().Add(c.life)
	p.conns[c.to] = append(p.conns[c.to], c)
	if !p.sweeping {
		p.sweeping = true
		time.AfterFunc(sweepEvery, p.sweep)
	}
	return true
}

// sweep closes what has been idle for too long. It is called by a timer, and sets the
// next one while anything is idle.
func (p *pool) sweep() {
	p.drop(time.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sweeping = len(p.conns) > 0; p.sweeping {
		time.AfterFunc(sweepEvery, p.sweep)
	}
}

// drop closes the connections that may not be idle any more then.
func (p *pool) drop(then time.Time) {
	for _, c := range p.remove(then) {
		c.cut()
	}
}

// remove takes those connections out of the pool and returns them.
func (p *pool) remove(then time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var old []*conn
	for to, conns := range p.conns {
		p.conns[to] = slices.DeleteFunc(conns, func(c *conn) bool {
			over := !c.until.After(then)
			if over {
				old = append(old, c)
			}
			return over
		})
		if len(p.conns[to]) == 0 {
			delete(p.conns, to)
		}
	}
	return old
}
