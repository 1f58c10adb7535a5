package sessions

import (
	"context"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// How sessions end, for the log.
const (
	EndEvicted = "evicted" // for a new one, at the limit of its user or tenant
	EndIdle    = "idle"
	EndExpired = "expired" // at its greatest age
	EndClosed  = "ended"   // by its client
)

// Why a session is not found that is not known to have ended, for the log.
const (
	LostUnreadable = "unreadable" // the id is not one of this gateway, or was sealed with a key that is gone
	LostForeign    = "foreign"    // it is another caller's
	LostRestart    = "restarted"  // another process opened it: before a restart, or another replica
	lostForgotten  = "forgotten"  // it ended before the last maxEnded, or at another replica
)

// maxEnded is how many ends are remembered.
const maxEnded = 4096

// Ended remembers how the last maxEnded sessions ended. A client that uses one of
// them is told only that there is no such session; an operator reads in the line of that
// request why. It is safe for concurrent use.
type Ended struct {
	mu    sync.Mutex // guards the fields below
	ends  map[ticket.Key]string
	order []ticket.Key // the oldest at next once it is full
	next  int
}

// NewEnded returns an Ended that remembers nothing yet.
func NewEnded() *Ended { return &Ended{ends: make(map[ticket.Key]string)} }

// Add remembers how a session ended. If there are too many, it forgets the oldest end.
func (d *Ended) Add(key ticket.Key, end string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.ends[key]; known {
		return
	}
	d.ends[key] = end
	if len(d.order) < maxEnded {
		d.order = append(d.order, key)
		return
	}
	delete(d.ends, d.order[d.next])
	d.order[d.next] = key
	d.next = (d.next + 1) % maxEnded
}

// Why returns how the session ended, or that this is not known any more.
func (d *Ended) Why(key ticket.Key) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if end, known := d.ends[key]; known {
		return end
	}
	return lostForgotten
}

// Miss notes for the log why the session of a request is not found. The client is told
// nothing of that.
func Miss(ctx context.Context, why string) *exchange.Refusal {
	if x := exchange.FromContext(ctx); x != nil {
		x.Missed = why
	}
	return exchange.ErrSession
}
