package eventlog

import (
	"context"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// choreRetry is how long it takes until what failed off the path is tried again.
const choreRetry = 2 * time.Second

// maxChores is how many chores are tried at once: more than begin while one try fails and
// choreRetry passes, or they would pile up as long as the server does not answer. Where
// it does, the Store makes round trips of fewer.
const maxChores = 16 << 10

// chore is what is yet to be done for a stream off the path: to drop in the server what
// was dropped here or, if it is forgotten, all of it. Chores are bounded by the streams
// that there are.
type chore struct {
	streamKey
	forgotten time.Time // when it was; zero: it is not
}

// forget has the server forget a stream.
func (l *Redis) forget(p streamKey) { l.chores.Add(struct{}{}, chore{p, l.config.Now()}) }

// dropped is told that a stream has lost its oldest event, which had that data, or that
// it is forgotten here. The mutex of the Memory is held.
func (l *Redis) dropped(s *memoryStream, oldest []byte, forgotten bool) {
	shared, p := s.shared, streamKey{Key{Name: s.session.name, Owner: s.session.owner}, s.name}
	size := quotaOf(oldest)
	if forgotten {
		size = shared.quota
	}
	l.giveQuotaLocked(s, size)
	switch {
	case shared.lost || shared.over: // the server has nothing of it, or is to forget all
	case !forgotten:
		l.chores.Add(struct{}{}, chore{streamKey: p})
	default:
		shared.over = true
		if shared.own { // others may still read what is not, and the server forgets that by itself
			l.forget(p)
		}
	}
}

// doChores drops in the server what was dropped here. What fails is tried again, and is
// left to the server when it has become too old in any case.
func (l *Redis) doChores(ctx context.Context, _ struct{}, some []chore) {
	var commands []redis.Command
	for _, c := range some {
		keys := c.keys()
		if !c.forgotten.IsZero() {
			commands = append(commands, redis.Command{Name: "UNLINK", Key: keys[1]},
				redis.Command{Name: "UNLINK", Key: keys[2]})
		} else if entry := l.oldest(c.streamKey); entry != "" {
			commands = append(commands,
				redis.Command{Name: "XTRIM", Key: keys[1], Args: []string{"MINID", entry}})
		}
	}
	if _, err := l.config.Store.DoAll(ctx, commands...); err == nil || !pace.Wait(ctx, choreRetry) {
		return
	}
	for _, c := range some {
		if c.forgotten.IsZero() || l.config.Now().Sub(c.forgotten) < 2*l.kept() {
			l.chores.Add(struct{}{}, c)
		}
	}
}

// oldest returns the id of the entry before which the server keeps nothing of a stream,
// "" if the stream is not here any more.
func (l *Redis) oldest(p streamKey) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.findLocked(p.session, p.stream)
	if s == nil || s.shared.lost {
		return ""
	}
	return entryID(s.floor+1, s.last && len(s.events) == 0)
}

// Run does what is off the path, until ctx ends: it drops in the server what was dropped
// here, and keeps there what is used here.
func (l *Redis) Run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	renew := time.NewTicker(max(time.Millisecond, l.config.Age/4))
	defer renew.Stop()
	var retry *time.Timer // has what the server has lost looked for again; nil: that never failed
	for {
		select {
		case run := <-l.begun:
			working.Go(func() { run(ctx) })
		case <-l.suspect:
			if retry != nil {
				retry.Stop() // one is enough, however often the server comes and goes
			}
			if !l.repairAll(ctx) {
				retry = time.AfterFunc(choreRetry, l.suspectLoss)
			}
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
	m := l.Memory
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[w.Parts[0]]
	if s == nil || s.owner.TenantID != w.Tenant {
		return nil, nil
	}
	if one := s.streams[w.Parts[1]]; one != nil && one.shared != nil && !one.shared.lost {
		l.releaseLocked(one) // what it has is in the server, with what the other has appended
	}
	s.rouse()
	return nil, nil
}

// suspectLoss has Run look what the server has lost.
func (l *Redis) suspectLoss() { pace.Signal(l.suspect) }

// lookAgain wakes all readers, because messages may have been lost.
func (l *Redis) lookAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sessions {
		s.rouse()
	}
}
