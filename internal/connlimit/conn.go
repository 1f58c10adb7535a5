package connlimit

import (
	"container/list"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"syscall"
)

// conn is one connection that has a slot. Limiter, trusted, from and source never change
// once it has it; what follows them is guarded by the limiter's mutex, but for
// unauthenticated and busy, which the HTTP server changes at every request.
type conn struct {
	net.Conn
	limiter *Limiter
	trusted bool
	from    netip.Prefix // the key of source
	source  *address     // nil: the address is trusted
	framing framing      // of its requests

	unauthenticated atomic.Bool
	busy            atomic.Bool // a request is in work

	left            bool          // it has no slot any more
	inAll, inSource *list.Element // where it waits to be closed; nil: it must not be
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (n int, err error) {
	n, err = c.Conn.Read(p)
	c.framing.scan(p[:n])
	return n, err
}

// Close gives the slot back and closes the connection.
func (c *conn) Close() error {
	c.limiter.mu.Lock()
	c.removeLocked()
	c.limiter.mu.Unlock()
	return c.Conn.Close()
}

var _ syscall.Conn = (*conn)(nil)

// SyscallConn implements syscall.Conn, for whoever takes the connection over from the
// HTTP server and writes without waiting. The error is errors.ErrUnsupported if what was
// accepted has no descriptor.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	inner, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return inner.SyscallConn()
}

// CloseWrite tells the client that nothing more comes. The connection stays open, and
// counted, until Close.
func (c *conn) CloseWrite() error {
	inner, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return inner.CloseWrite()
}

// changed follows what the HTTP server does with the connection. The server says active
// when the header of a request was read, not when it began, so a request that comes
// slowly is no protection. A connection in use stays in its queue until somebody looks
// for one to close, so that a request costs one lock and no memory.
func (c *conn) changed(state http.ConnState) {
	switch state {
	case http.StateActive:
		c.busy.Store(true)
	case http.StateIdle:
		c.busy.Store(false)
		// An unauthenticated one keeps its turn, or it could stay for ever by being used.
		if !c.unauthenticated.Load() {
			c.limiter.mu.Lock()
			defer c.limiter.mu.Unlock()
			c.queueLocked()
		}
	default: // one that is taken over stays counted and busy until whoever has it closes it
	}
}

// mark says whether the request in work is unauthenticated.
func (c *conn) mark(unauthenticated bool) {
	unauthenticated = unauthenticated && !c.trusted
	if c.unauthenticated.Swap(unauthenticated) == unauthenticated {
		return
	}
	c.limiter.mu.Lock()
	defer c.limiter.mu.Unlock()
	c.dequeueLocked()
	c.queueLocked()
}

// queueLocked makes the connection the last in the queues of its kind.
func (c *conn) queueLocked() {
	if c.left {
		return
	}
	c.inAll = c.last(&c.limiter.all, c.inAll)
	if c.source != nil {
		c.inSource = c.last(&c.source.queues, c.inSource)
	}
}

// last puts the connection, which is at that element or nowhere, at the end of a queue.
func (c *conn) last(of *queues, at *list.Element) *list.Element {
	queue := &of.idle
	if c.unauthenticated.Load() {
		queue = &of.unauthenticated
	}
	if at == nil {
		return queue.PushBack(c)
	}
	queue.MoveToBack(at)
	return at
}

// dequeueLocked takes the connection out of all queues.
func (c *conn) dequeueLocked() {
	if c.inAll != nil {
		c.limiter.all.remove(c.inAll)
		c.inAll = nil
	}
	if c.inSource != nil {
		c.source.remove(c.inSource)
		c.inSource = nil
	}
}

// removeLocked gives the slot back; further calls do nothing.
func (c *conn) removeLocked() {
	if c.left {
		return
	}
	c.dequeueLocked()
	c.left = true
	c.limiter.open--
	if c.source == nil {
		return
	}
	if c.source.open--; c.source.open == 0 {
		delete(c.limiter.addresses, c.from)
	}
}
