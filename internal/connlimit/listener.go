package connlimit

import (
	"net"
	"net/netip"
	"strconv"
)

// Listener returns a listener that accepts what inner accepts, as far as there is room.
func (l *Limiter) Listener(inner net.Listener) net.Listener { return &listener{inner, l} }

type listener struct {
	net.Listener
	limiter *Limiter
}

// Accept returns the next connection that finds a slot.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.limiter.admit(accepted); c != nil {
			return c, nil
		}
		turnAway(accepted)
	}
}

// busyCode is the stable code, and busyBody the body, of what a newcomer reads that finds
// no slot. It has the form of the gateway's other errors.
const (
	busyCode = "DB-OVERLOAD-CONNECTIONS"
	busyBody = `{"jsonrpc":"2.0","error":{"code":503,"message":"All connections are taken: try again later","data":{"code":"` + busyCode + `","retryAfterMs":1000}}}`
)

var busyAnswer = []byte(
	"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Type: " +
		"application/json\r\nContent-Length: " +
		strconv.Itoa(len(busyBody)) + "\r\n\r\n" + busyBody)

// turnAway tells a newcomer that there is no slot. The answer is sent before the request
// is read, so the kernel may reset the connection before the client sees the answer; it
// is short enough never to block.
func turnAway(c net.Conn) {
	_, _ = c.Write(busyAnswer)
	_ = c.Close()
}

// admit makes room for a connection and counts it, or returns nil.
func (l *Limiter) admit(accepted net.Conn) *conn {
	from := addressOf(accepted)
	c := &conn{Conn: accepted, limiter: l, trusted: l.cfg.Trusted != nil && l.cfg.Trusted(from)}
	l.mu.Lock()
	out, cause, ok := l.admitLocked(c, Network(from))
	l.mu.Unlock()
	if !ok {
		tell(l.cfg.Refused, cause)
		return nil
	}
	if out != nil {
		tell(l.cfg.Closed, cause)
		_ = out.Conn.Close() // its own Close has nothing left to give back
	}
	return c
}

func tell(to func(Cause), cause Cause) {
	if to != nil {
		to(cause)
	}
}

// admitLocked counts c. If there was no room, out is the connection that lost its slot
// to c, which has to be closed, and cause says why. ok is false if no connection can give
// way.
func (l *Limiter) admitLocked(c *conn, from netip.Prefix) (out *conn, cause Cause, ok bool) {
	var source *address
	if !c.trusted {
		if source = l.addresses[from]; source == nil {
			source = new(address)
		}
	}
	switch {
	case source != nil && source.open >= l.cfg.Address:
		cause, out = Address, source.firstLocked()
	case l.open >= l.cfg.Total:
		if cause, out = Total, l.crowdedLocked(); out == nil {
			out = l.all.firstLocked()
		}
	}
	if cause != "" && out == nil {
		return nil, cause, false
	}
	if out != nil {
		out.removeLocked()
	}
	c.from, c.source = from, source
	if source != nil {
		l.addresses[from] = source
		source.open++
	}
	l.open++
	c.unauthenticated.Store(!c.trusted)
	c.queueLocked()
	return out, cause, true
}

// addressOf returns the address of the client, the zero Addr if it has none.
func addressOf(c net.Conn) netip.Addr {
	tcp, _ := c.RemoteAddr().(*net.TCPAddr) // a nil one has the zero address
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// Network returns what counts as one address: of IPv6 the first 64 bits, since whoever
// has one address there has all with these. It is not valid for the zero Addr.
func Network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(a, bits).Masked()
}
