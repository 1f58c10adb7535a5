package eventlog

import (
	"context"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/internal/redis"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
)

// ownStream is a stream that only this replica appends to and that is in the server.
type ownStream struct {
	streamKey
	last bool // it has had its last event
}

// ownStreams returns all of them.
func (l *Redis) ownStreams() (streams []ownStream) {
	m := l.Memory
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked(m.config.Now())
	for _, session := range m.sessions {
		for _, s := range session.streams {
			if s.shared != nil && s.shared.own && !s.shared.lost {
				key := streamKey{Key{Name: session.name, Owner: session.owner}, s.name}
				streams = append(streams, ownStream{key, s.last})
			}
		}
	}
	return streams
}

// renewAll keeps in the server the streams that are here, and here those that are read at
// other replicas, until the session ends. Who reads a stream stands there for as long as
// it reads, and for as long as it has to be told what comes.
func (l *Redis) renewAll(ctx context.Context) {
	life, streams := []string{l.life()}, l.ownStreams()
	commands, readers := make([]redis.Command, 0, 4*len(streams)), make([]redis.Command, 0, len(streams))
	for _, p := range streams {
		keys := p.keys()
		commands = append(commands, redis.Command{Name: "PEXPIRE", Key: keys[1], Args: life},
			redis.Command{Name: "SMEMBERS", Key: keys[2]}, redis.Command{Name: "EXISTS", Key: keys[0]})
		if !p.last {
			readers = append(readers, redis.Command{Name: "PEXPIRE", Key: keys[2], Args: life})
		}
	}
	// the next time is soon enough for the rest
	replies, _ := l.config.Store.DoAll(ctx, append(commands, readers...)...)
	for i := range min(len(replies)/3, len(streams)) {
		if goesOn, _ := replies[3*i+2].Int(); goesOn > 0 && l.isReadElsewhere(replies[3*i+1]) {
			l.touch(streams[i].streamKey)
		}
	}
}

// isReadElsewhere tells whether other replicas are among those that read a stream.
func (l *Redis) isReadElsewhere(readers redis.Reply) bool {
	list, _ := readers.List() // none where they could not be read
	return slices.ContainsFunc(list, func(r redis.Reply) bool {
		id, err := r.Text()
		return err == nil && replica.ID(id) != l.config.Others.Self() &&
			l.config.Others.IsThere(replica.ID(id))
	})
}

// touch notes that a stream is used.
func (l *Redis) touch(p streamKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.findLocked(p.session, p.stream); s != nil {
		l.touchLocked(s, l.config.Now())
	}
}

// repairAll looks, after a fault, what the server has lost of the streams of this
// replica, and writes it again. A stream that it has lost altogether goes on in memory.
// It is false if the server did not answer for all of them.
func (l *Redis) repairAll(ctx context.Context) bool {
	all := true
	for _, p := range l.ownStreams() {
		all = l.repair(ctx, p.streamKey) == nil && all
	}
	return all
}

func (l *Redis) repair(ctx context.Context, p streamKey) error {
	l.mu.Lock()
	s := l.findLocked(p.session, p.stream)
	l.mu.Unlock()
	if s == nil {
		return nil // it has ended, or was forgotten
	}
	if err := pace.Await(ctx, s.shared.turn); err != nil {
		return err
	}
	defer func() { s.shared.turn <- struct{}{} }()
	w := &writing{streamKey: p}
	said, rest, err := l.askTop(ctx, p, "", "", "", "")
	if err != nil {
		return err
	}
	top, _, ok := topOf(said, rest)
	for _, e := range l.missing(p, top, ok) {
		w.data, w.last = e.Data, e.Last
		_, sequence, _ := parseID(e.ID)
		if l.write(ctx, w, sequence); w.err != nil {
			return w.err
		}
		if w.said != saidOK {
			l.missing(p, 0, false)
			return nil
		}
	}
	return nil
}

// missing returns the events of a stream that the server has not, after the newest that
// it has. If it has no such stream, or one that does not go on here, the stream goes on
// in memory only.
func (l *Redis) missing(p streamKey, top uint64, there bool) []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.findLocked(p.session, p.stream)
	if s == nil || !s.shared.own || s.shared.lost {
		return nil
	}
	switch {
	case there && top == s.shared.top:
		return nil
	case there && top < s.shared.top && s.has(top):
		return s.after(top)
	}
	l.loseLocked(p, s)
	s.shared.top = max(s.floor, s.shared.base) // nothing of it can be read elsewhere
	return nil
}
