package server

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// How sessions end, for the log.
const (
	endEvicted = "evicted" // for a new one, at the limit of its user or tenant
	endIdle    = "idle"
	endExpired = "expired" // at its greatest age
	endClosed  = "ended"   // by its client
)

// Why a session is not found that is not known to have ended, for the log.
const (
	lostUnreadable = "unreadable" // the id is not one of this gateway, or was sealed with a key that is gone
	lostForeign    = "foreign"    // it is another caller's
	lostRestart    = "restarted"  // another process opened it: before a restart, or another replica
	lostGeneration = "lost"       // what replicas share was lost since it was opened
	lostForgotten  = "forgotten"  // it ended before the last maxDeparted
)

const (
	maxDeparted = 4096 // ends that are remembered
	// in the log, of those for one new session: a reload that lowers a limit ends many
	maxEvictionsShown = 10
)

// departed remembers how the last maxDeparted sessions ended. A client that uses one of
// them is told only that there is no such session; an operator reads in the line of that
// request why. It is safe for concurrent use.
type departed struct {
	mu    sync.Mutex // guards the fields below
	ends  map[ticket.Key]string
	order []ticket.Key // the oldest at next once it is full
	next  int
}

func newDeparted() *departed { return &departed{ends: make(map[ticket.Key]string)} }

// add remembers how a session ended. If there are too many, it forgets the oldest end.
func (d *departed) add(key ticket.Key, end string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.ends[key]; known {
		return
	}
	d.ends[key] = end
	if len(d.order) < maxDeparted {
		d.order = append(d.order, key)
		return
	}
	delete(d.ends, d.order[d.next])
	d.order[d.next] = key
	d.next = (d.next + 1) % maxDeparted
}

// end returns how the session ended, or that this is not known any more.
func (d *departed) end(key ticket.Key) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if end, known := d.ends[key]; known {
		return end
	}
	return lostForgotten
}

// miss notes for the log why the session of a request is not found. The client is told
// nothing of that.
func miss(ctx context.Context, why string) *exchange.Refusal {
	if x := exchange.FromContext(ctx); x != nil {
		x.Missed = why
	}
	return exchange.ErrSession
}

// tellEvicted logs which sessions were evicted for a new one, the one that was idle
// longest first. A new session evicts one, so there are at most as many lines as requests
// that open sessions, and a few more after a reload that lowers a limit.
func (ss *sessions) tellEvicted(ctx context.Context, evicted []*live) {
	for i, l := range evicted {
		if i == maxEvictionsShown {
			ss.logger.InfoContext(ctx, "more sessions evicted", slog.Int("sessions", len(evicted)-i))
			return
		}
		ss.logger.InfoContext(ctx, "session evicted", slog.String("session", l.shortName()),
			slog.String("limit", l.evictedBy),
			slog.Float64("idle_seconds", time.Since(l.idleSince()).Seconds()))
	}
}

// shortName names the session in the log: enough to find all its lines, and not part of
// its id.
func (l *live) shortName() string { return l.name[:12] }
