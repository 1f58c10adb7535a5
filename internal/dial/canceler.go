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
	mu    sync.Mutex  // guards the fields below, and those of watched of each connection
	young []*conn     // their requests have begun since the last look but one
	timer *time.Timer // calls look; nil: there was no request yet
	waits bool        // the timer will call look
}

// watched is what the canceler knows of the request that has a connection.
type watched struct {
	ctx   context.Context //nolint:containedctx // of the request, as long as it has the connection
	index int             // in young; -1: it is not there
	seen  bool            // it was young at the last look
	// keeps the end of the context from closing the connection; nil: the context was not
	// told
	stop func() bool
}

// add begins to look after a request, which has the connection until remove is called.
func (l *canceler) add(ctx context.Context, c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.watched = watched{ctx: ctx, index: len(l.young)}
	l.young = append(l.young, c)
	if l.waits {
		return
	}
	l.waits = true
	if l.timer == nil {
		l.timer = time.AfterFunc(sweepInterval, l.sweep)
		return
	}
	l.timer.Reset(sweepInterval)
}

// remove ends that. It returns false if the end of the context closes the connection, or
// has done so.
func (l *canceler) remove(c *conn) (open bool) {
	l.mu.Lock()
	if i := c.watched.index; i >= 0 {
		last := len(l.young) - 1
		l.young[i] = l.young[last]
		l.young[i].watched.index = i
		l.young[last] = nil
		l.young = l.young[:last]
	}
	stop := c.watched.stop
	c.watched = watched{index: -1}
	l.mu.Unlock()
	return stop == nil || stop()
}

// sweep tells the contexts of the requests that were young at the last look too. The
// timer calls it.
func (l *canceler) sweep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	young := l.young[:0]
	for _, c := range l.young {
		w := &c.watched
		if w.seen {
			w.index = -1
			w.stop = context.AfterFunc(w.ctx, c.cut)
			continue
		}
		w.seen, w.index = true, len(young)
		young = append(young, c)
	}
	clear(l.young[len(young):])
	l.young = young
	if l.waits = len(young) > 0; l.waits {
		l.timer.Reset(sweepInterval)
	}
}
