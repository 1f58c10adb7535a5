package upstream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Limits of sessions while others wait for room.
const (
	idleGrace = time.Second     // before a session makes room for who has one already
	turnLimit = 2 * time.Second // before one that is never idle makes room for who has none
)

// ticket is a place in the queue of those who want a session.
type ticket struct {
	key     key
	use     use
	served  chan struct{} // closed when session is set, or the pool has ended
	session *pooled
}

// acquire returns a session for the key. Where there is no room it waits, first come, first served; a call that does not
// find any has not left.
func (p *pool) acquire(ctx context.Context, k key, u use) (*pooled, error) {
	if p.max < 1 {
		return nil, p.server.unavailable(false, errors.New("max_children leaves no child for calls"))
	}
	p.mu.Lock()
	if p.ended {
		p.mu.Unlock()
		return nil, p.server.unavailable(false, wire.ErrGone)
	}
	if s := p.admit(k, u); s != nil {
		p.mu.Unlock()
		return p.ready(ctx, s, u)
	}
	t := &ticket{key: k, use: u, served: make(chan struct{})}
	p.queue = append(p.queue, t)
	p.serve()
	p.mu.Unlock()
	return p.wait(ctx, t)
}

// wait waits for the ticket's turn, as long as ctx lets it.
func (p *pool) wait(ctx context.Context, t *ticket) (*pooled, error) {
	again := time.NewTicker(idleGrace)
	defer again.Stop()
	for {
		select {
		case <-t.served:
			if t.session == nil {
				return nil, p.server.unavailable(false, wire.ErrGone)
			}
			return p.ready(ctx, t.session, t.use)
		case <-again.C:
			p.look(t)
		case <-ctx.Done():
			if s := p.quit(t); s != nil {
				return p.ready(ctx, s, t.use)
			}
			return nil, p.late(ctx)
		}
	}
}

// look looks for sessions that may make room by now. The first in the queue does so for all.
func (p *pool) look(t *ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) > 0 && p.queue[0] == t {
		p.serve()
	}
}

// quit takes a ticket out of the queue. It returns the session that it got just now, nil when it has none.
func (p *pool) quit(t *ticket) *pooled {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = slices.DeleteFunc(p.queue, func(other *ticket) bool { return other == t })
	return t.session
}

// late returns the error of a call whose time ended before it left. One whose caller has gone is owed none.
func (p *pool) late(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return p.server.unavailable(false, errBusy)
	}
	return ctx.Err()
}

// serve gives sessions to those in the queue, or makes room for them: one session for each, in their order, so that who
// came first gets the next place, whatever its key. The mutex is held.
func (p *pool) serve() {
	left := 0
	p.queue = slices.DeleteFunc(p.queue, func(t *ticket) bool {
		if t.session = p.admit(t.key, t.use); t.session != nil {
			close(t.served)
			return true
		}
		if left++; left > p.closing && !p.makeRoom(t.key) && left > p.closing+p.retiring {
			p.retire(t.key)
		}
		return false
	})
}

// admit returns a session for one more use: one that is there, or another where there is room. It is nil when there is
// neither. Whoever comes overtakes nobody by it: a place that is free has been offered to the queue. The mutex is held.
func (p *pool) admit(k key, u use) *pooled {
	s := p.find(k)
	if s == nil && p.rivals(k) == nil {
		s = p.begin(k)
	}
	if s != nil {
		s.add(u)
	}
	return s
}

func (s *pooled) add(u use) {
	if u == aLoan {
		s.loans++
		return
	}
	s.calls++
}

// makeRoom closes the one of the rivals that has been idle longest. Those with tasks, which are lost then, come late, and
// those on which resources are watched last; the watchers find another. Who has sessions already, which are busy, leaves one alone that was in use just now. There is no
// room for the key. The mutex is held.
func (p *pool) makeRoom(k key) bool {
	var grace time.Duration
	if len(p.sessions[k]) > 0 {
		grace = idleGrace
	}
	rivals := p.rivals(k)
	var oldest *pooled
	for _, sessions := range p.sessions {
		for _, s := range sessions {
			if s != p.lent && s.calls == 0 && rivals(s) && time.Since(s.idle) >= grace && (oldest == nil || s.before(oldest)) {
				oldest = s
			}
		}
	}
	if oldest == nil {
		return false
	}
	p.leave(oldest)
	return true
}

// retire ends the turn of the rival that was opened first, for a key without sessions, when none is ever idle: it takes no
// more calls, and makes room when its last one has ended. There is no room for the key. The mutex is held.
func (p *pool) retire(k key) {
	if len(p.sessions[k]) > 0 {
		return
	}
	rivals := p.rivals(k)
	var oldest *pooled
	for _, sessions := range p.sessions {
		for _, s := range sessions {
			if s.hadTurn() && rivals(s) && (oldest == nil || s.since.Before(oldest.since)) {
				oldest = s
			}
		}
	}
	if oldest != nil {
		p.forget(oldest)
		oldest.retired = true
		p.retiring++
	}
}

// hadTurn tells whether a session may retire. One whose callers can be asked may not, as it could be busy long after that,
// and neither may one that has tasks.
func (s *pooled) hadTurn() bool {
	return s.key.capabilities == "" && s.needed.IsZero() && !s.since.IsZero() && time.Since(s.since) >= turnLimit
}
