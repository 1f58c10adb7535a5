package eventlog

import (
	"context"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// choreRetry is how long it takes until what failed off the path is tried again.
const choreRetry = 2 * time.Second

// chores are what is yet to be done for streams off the path. They are bounded by the
// streams that there are: of each, only the newest state counts.
type chores struct {
	now      func() time.Time
	wake     chan struct{} // holds a token while there is something to do
	returned chan struct{} // holds a token while it is to be looked whether the server has lost something

	mu      sync.Mutex              // guards the fields below
	trims   map[streamKey]string    // id of the entry before which all are to be dropped
	forgets map[streamKey]time.Time // streams that are to be forgotten, and since when
}

func newChores(now func() time.Time) *chores {
	return &chores{
		now: now, wake: make(chan struct{}, 1), returned: make(chan struct{}, 1),
		trims: make(map[streamKey]string), forgets: make(map[streamKey]time.Time),
	}
}

func (c *chores) prompt() { put(c.wake) }

// put puts a token into a channel that holds one, unless there is one.
func put(into chan struct{}) {
	select {
	case into <- struct{}{}:
	default:
	}
}

// dropped notes that a stream has lost its oldest event, or all it has. The mutex of the
// Memory is held.
func (c *chores) dropped(s *memoryStream, all bool) {
	shared := s.shared
	p := streamKey{Key{Name: s.session.name, Owner: s.session.owner}, s.name}
	switch {
	case shared.lost || shared.over: // the server has nothing of it, or is to forget all
	case all:
		shared.over = true
		if shared.own { // others may still read what is not, and the server forgets that by itself
			c.forget(p)
		}
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.trims[p] = entryID(s.floor+1, s.last && s.events.count == 0)
		c.prompt()
	}
}

// forget has the server forget a stream.
func (c *chores) forget(p streamKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.trims, p)
	if _, known := c.forgets[p]; !known {
		c.forgets[p] = c.now()
	}
	c.prompt()
}

// Run does what is off the path, until ctx ends: it drops in the server what was dropped
// here, and keeps there what is used here.
func (l *Redis) Run(ctx context.Context) error {
	renew := time.NewTicker(max(time.Millisecond, l.config.Age/4))
	defer renew.Stop()
	retry := time.NewTicker(choreRetry)
	defer retry.Stop()
	for broken := false; ; {
		select {
		case <-l.chores.wake:
			l.trimAll(ctx)
		case <-l.chores.returned:
			broken = !l.repairAll(ctx)
		case <-retry.C:
			l.trimAll(ctx)
			broken = broken && !l.repairAll(ctx)
		case <-renew.C:
			l.renewAll(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// wake has a replica look at streams.
func (l *Redis) wake(ctx context.Context, at replica.ID, some []streamKey) {
	for _, p := range some {
		// who gets none looks again by itself
		_, _ = l.config.Others.Send(ctx, at, replica.Message{
			Kind: kindAppended, Tenant: p.session.Owner.TenantID, Parts: []string{p.session.Name, p.stream},
		})
	}
}

// heard wakes the readers of a session, because another replica has appended to one of
// its streams.
func (l *Redis) heard(_ context.Context, _ replica.ID, w replica.Message) ([]byte, error) {
	if len(w.Parts) < 2 {
		return nil, replica.ErrForm
	}
	m := l.local
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[w.Parts[0]]
	if s == nil || s.owner.TenantID != w.Tenant {
		return nil, nil
	}
	if one := s.streams.find(w.Parts[1]); one != nil && one.shared != nil {
		one.shared.own = one.shared.own && one.shared.lost // others append, too
	}
	s.rouse()
	return nil, nil
}

// returned wakes all readers, because messages may have been lost, and has Run look what
// the server has lost.
func (l *Redis) returned() {
	m := l.local
	m.mu.Lock()
	for _, s := range m.sessions {
		s.rouse()
	}
	m.mu.Unlock()
	put(l.chores.returned)
}

// trimAll drops in the server what was dropped here. What fails is tried again, and is
// left to the server when it has become too old in any case.
func (l *Redis) trimAll(ctx context.Context) {
	l.chores.mu.Lock()
	trims, forgets := l.chores.trims, l.chores.forgets
	l.chores.trims, l.chores.forgets = make(map[streamKey]string), make(map[streamKey]time.Time)
	l.chores.mu.Unlock()
	var commands []redis.Command
	for p, entry := range trims {
		commands = append(commands, redis.Command{
			Name: "XTRIM", Key: p.keys()[1],
			Args: []string{"MINID", entry},
		})
	}
	for p := range forgets {
		keys := p.keys()
		commands = append(commands, redis.Command{Name: "UNLINK", Key: keys[1]},
			redis.Command{Name: "UNLINK", Key: keys[2]})
	}
	if _, err := l.config.Store.DoAll(ctx, commands...); err == nil {
		return
	}
	l.chores.mu.Lock()
	defer l.chores.mu.Unlock()
	for p, entry := range trims {
		if l.chores.trims[p] == "" { // otherwise more was dropped meanwhile
			l.chores.trims[p] = entry
		}
	}
	for p, since := range forgets {
		if l.config.Now().Sub(since) < 2*l.config.Age {
			l.chores.forgets[p] = since
		}
	}
}
