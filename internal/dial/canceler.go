package dial

import (
	"context"
	"sync"
	"time"
)

// sweepInterval is the time between two looks at the requests that are on their way.
const sweepInterval = 25 * time.Millisecond

// canceler sees to it that the end of a request's context closes the request's
// connection. To tell a context so (context.AfterFunc) costs several allocations, and
// most requests are answered before it could matter. So a context is told only when its
// request has been on its way for one interval at least:
//
//	add ──▶ young ──at the second look──▶ told: the end of the context closes the connection at once
//	          │                             │
//	          └──────────▶ remove ◀─────────┘
//
// A context that ends while its request is young is noticed at the second look, so at
// most two of these intervals later. No timer runs while no request is young. It is safe
// for concurrent use.
type canceler struct {
	mu    sync.Mutex         // guards the fields below, and those of watched of each connection
	young map[*conn]struct{} // their requests have begun since the last look but one
	waits bool               // a timer will call sweep
}

func newCanceler() *canceler { return &canceler{young: map[*conn]struct{}{}} }

// watched is what the canceler knows of the request that has a connection.
type watched struct {
	ctx  context.Context //nolint:containedctx // of the request, as long as it has the connection
	seen bool            // it was young at the last look
	// keeps the end of the context from closing the connection; nil: the context was not
	// told
	stop func() bool
}

// add begins to look after a request, which has the connection until remove is called.
func (l *canceler) add(ctx context.Context, c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.watched = watched{ctx: ctx}
	l.young[c] = struct{}{}
	if !l.waits {
		l.waits = true
		time.AfterFunc(sweepInterval, l.sweep)
	}
}

// remove ends that. It returns false if the end of the context closes the connection, or
// has done so.
func (l *canceler) remove(c *conn) (open bool) {
	l.mu.Lock()
	delete(l.young, c)
	stop := c.watched.stop
	c.watched = watched{}
	l.mu.Unlock()
	return stop == nil || stop()
}

// sweep tells the contexts of the requests that were young at the last look too. The
// timer calls it.
func (l *canceler) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.young {
		w := &c.watched
		if w.seen {
			w.stop = context.AfterFunc(w.ctx, c.cut)
			delete(l.young, c)
		}
		w.seen = true
	}
	if l.waits = len(l.young) > 0; l.waits {
		time.AfterFunc(sweepInterval, l.sweep)
	}
}
