package replica

import (
	"sync"
	"time"
)

// leaseTime is for how long after a beat a replica may lead what it leads. It is shorter
// than life, so that this ends before another one can take it for gone.
const leaseTime = life - 500*time.Millisecond

// lease says until when a replica may lead, by its own clock. A beat extends it, and so
// do answers of others that they do not use Redis either, if all who can be reached give
// one: what runs in none of them can take nothing over. One that is not reached is most
// likely gone with Redis. If it is not, the epoch still refuses what is written late:
//
//	beat ──▶ leads for leaseTime ──▶ no beat, and nobody said so ──▶ leads no more ──beat──▶ leads anew: since is later
//
// The zero lease has not begun.
type lease struct {
	mu    sync.Mutex // guards the fields below
	since time.Time
	until time.Time
}

// extend extends the lease because of what was asked then, and is answered now. A lease
// that has ended meanwhile begins anew, however early that was asked: the server may have
// taken the beat so late that another replica has taken this one for gone before.
func (l *lease) extend(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.After(l.until) {
		l.since = now
	}
	if until := asked.Add(leaseTime); until.After(l.until) {
		l.until = until
	}
}

// Leads implements Others.
func (g *Group) Leads() (since time.Time, leads bool) {
	g.lease.mu.Lock()
	defer g.lease.mu.Unlock()
	return g.lease.since, time.Now().Before(g.lease.until)
}

// isAway tells whether this replica does not use Redis at the moment.
func (g *Group) isAway() bool {
	last := g.clock.Load()
	return last == nil || time.Since(last.answered) > 2*beat
}
