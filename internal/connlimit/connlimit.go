// Package connlimit answers: may this connection stay? It bounds how many connections of
// clients are open, in all and for each address, and when a bound is reached it closes
// the one that is the least loss. It knows when a connection was last used and whether
// who used it was known, because it is told so; it does not know what a token is, and of
// a request no more than whether its end is certain (framing.go).
//
// Every connection costs a descriptor and some memory, and a client without a token can
// open as many as the kernel lets it. To refuse all newcomers at the bound would let that
// client lock everybody out. So a newcomer takes the slot of another, of the first that
// there is:
//
//  1. the oldest unauthenticated connection: one that has not had a request of somebody
//     known, or whose last one was refused;
//  2. the connection that has been idle for longest.
//
// A connection is unauthenticated until its first request has been read, and a flood of
// connections that were accepted together could push out those beside it before that. So
// in all, not the oldest goes but, of some of the oldest, the one whose address has the
// most connections; those of addresses with fewer lose their turn.
//
// A connection with a request of somebody known in work is never closed. If there are
// only such, the newcomer is refused. The same holds among the connections of one address
// at the bound for addresses, so that an address with too many connections loses its own.
//
// A connection that is taken over from the HTTP server (http.Hijacker) counts as one in
// work until it is closed.
//
//	Limiter.Listener: accept ──▶ unauthenticated ──Known──▶ busy ◀──next request── idle
//	                                    ▲                    │ └────answered────────▶ │
//	                                    └──Unknown───────────┘                        │
//	                                    └──────────────── Unknown ────────────────────┘
package connlimit

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// Config says how many connections may be open.
type Config struct {
	Total   int // in all; it must be positive
	Address int // of one address, or one IPv6 network of 64 bits; zero: as many as in all

	// Trusted tells whether many clients may come from the address, as from a load
	// balancer. Then the bound for one address does not hold, and its connections are
	// nobody's in particular: they count as known from the beginning. It is called for
	// every connection that is accepted; nil: there is no such address.
	Trusted func(netip.Addr) bool
	// Refused is called when a newcomer finds no slot, Closed when another gave way to
	// one. Either may be nil. They are called by the goroutine that accepts, so they must
	// be quick.
	Refused func(Cause)
	Closed  func(Cause)
}

// Cause says which bound was reached.
type Cause string

// Causes.
const (
	Total   Cause = "total"
	Address Cause = "address"
)

// Limiter bounds the connections of one listener. It is safe for concurrent use.
type Limiter struct {
	cfg Config

	mu        sync.Mutex // guards the fields below, and those of conns and of lists
	open      int
	all       queues
	addresses map[netip.Prefix]*address // those with a connection that is not trusted
}

// address is the connections of one address.
type address struct {
	open int
	queues
}

// queues are connections that may be closed, each in the order in which that would be
// done.
type queues struct{ unauthenticated, idle list.List }

// firstLocked returns the connection to close first, nil if there is none. Those in use
// by somebody known lose their turn; they get another when they are idle.
func (q *queues) firstLocked() *conn {
	for _, l := range []*list.List{&q.unauthenticated, &q.idle} {
		for front := l.Front(); front != nil; front = l.Front() {
			c := front.Value.(*conn)
			if c.unauthenticated.Load() || !c.busy.Load() {
				return c
			}
			c.dequeueLocked()
		}
	}
	return nil
}

// compared is how many unauthenticated connections are looked at to find the one that
// goes.
const compared = 16

// crowdedLocked returns, of the unauthenticated connections that have waited for longest,
// the first of those whose address has the most connections, nil if there is none. Those
// of addresses with fewer become the last in the queue, so that the next newcomer meets
// others: were they to stay in front, as many of them would hide the address with the
// most.
func (l *Limiter) crowdedLocked() *conn {
	var most *conn
	looked := make([]*conn, 0, compared)
	for e := l.all.unauthenticated.Front(); e != nil && len(looked) < compared; e = e.Next() {
		c := e.Value.(*conn)
		if !c.unauthenticated.Load() {
			continue // it has just become known, and is about to leave the queue
		}
		looked = append(looked, c)
		if most == nil || c.source.open > most.source.open {
			most = c
		}
	}
	for _, c := range looked {
		if c.source.open < most.source.open {
			l.all.unauthenticated.MoveToBack(c.inAll)
		}
	}
	return most
}

// remove takes out what is in one of the queues.
func (q *queues) remove(e *list.Element) {
	q.unauthenticated.Remove(e) // does nothing for an element of another list
	q.idle.Remove(e)
}

// New returns a limiter without any connection.
func New(cfg Config) *Limiter {
	if cfg.Address <= 0 {
		cfg.Address = cfg.Total
	}
	return &Limiter{cfg: cfg, addresses: make(map[netip.Prefix]*address)}
}

// Open returns how many connections are open.
func (l *Limiter) Open() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// Unused returns how many open connections have no request in work: those that are idle,
// and those on which none has come yet. It looks at all of them.
func (l *Limiter) Unused() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, queue := range []*list.List{&l.all.unauthenticated, &l.all.idle} {
		for e := queue.Front(); e != nil; e = e.Next() {
			if !e.Value.(*conn).busy.Load() {
				n++
			}
		}
	}
	return n
}

// Attach makes the limiter bound the connections of the server, which must be served with
// Listener. It sets ConnState and ConnContext, and wraps the handler.
func (l *Limiter) Attach(s *http.Server) {
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if one, ok := c.(*conn); ok {
			one.changed(state)
		}
	}
	s.Handler = framed(s.Handler)
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
}

type connKey struct{}

// Known says that the request that ctx belongs to is of somebody known. Without an
// attached limiter it does nothing.
func Known(ctx context.Context) { mark(ctx, false) }

// Unknown says that the request that ctx belongs to was refused because it is of nobody
// known. Without an attached limiter it does nothing.
func Unknown(ctx context.Context) { mark(ctx, true) }

func mark(ctx context.Context, unauthenticated bool) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.mark(unauthenticated)
	}
}
