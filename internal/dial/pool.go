package dial

import (
	"slices"
	"sync"
	"time"
)

const sweepEvery = idleTimeout / 3

// pool keeps idle connections. The one used last is taken first, so that those beyond need grow old.
type pool struct {
	most int // per host

	mu       sync.Mutex         // guards the fields below
	conns    map[string][]*conn // by host, the longest idle first
	sweeping bool               // a sweep is due
}

// take returns a connection that the server has not closed, nil if there is none.
func (p *pool) take(host string) *conn {
	for {
		c := p.pop(host)
		if c == nil || time.Since(c.since) < idleTimeout && c.alive() {
			return c
		}
		c.cut()
	}
}

func (p *pool) pop(host string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := p.conns[host]
	if len(conns) == 0 {
		return nil
	}
	last := len(conns) - 1
	c := conns[last]
	conns[last] = nil
	p.conns[host] = conns[:last]
	return c
}

func (p *pool) put(c *conn) {
	if !p.push(c) {
		c.cut()
	}
}

func (p *pool) push(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.conns[c.host]) >= p.most {
		return false
	}
	c.since = time.Now()
	p.conns[c.host] = append(p.conns[c.host], c)
	if !p.sweeping {
		p.sweeping = true
		time.AfterFunc(sweepEvery, p.sweep)
	}
	return true
}

// sweep closes what has been idle for too long, and comes back while anything is idle.
func (p *pool) sweep() {
	p.drop(time.Now().Add(-idleTimeout))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sweeping = len(p.conns) > 0; p.sweeping {
		time.AfterFunc(sweepEvery, p.sweep)
	}
}

// drop closes the connections that are idle since then or longer.
func (p *pool) drop(then time.Time) {
	for _, c := range p.remove(then) {
		c.cut()
	}
}

func (p *pool) remove(then time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var old []*conn
	for host, conns := range p.conns {
		n := 0
		for n < len(conns) && !conns[n].since.After(then) {
			n++
		}
		old = append(old, conns[:n]...)
		if n == len(conns) {
			delete(p.conns, host)
			continue
		}
		p.conns[host] = slices.Delete(conns, 0, n)
	}
	return old
}
