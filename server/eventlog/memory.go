package eventlog

import (
	"cmp"
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// What an event and a stream cost in memory beside their data, in bytes, roughly. Without
// it, a great many small or empty ones would cost nothing and have no bound.
const (
	eventCost  = 128
	streamCost = 512
)

// streamsPart is the part of the budget of the process that streams may take: the budget
// divided by this.
const streamsPart = 2

// leastKept is for how long a stream that nobody reads is kept at least: one that is open
// to a client is read at each heartbeat, which may come as late as one write takes.
const leastKept = 30 * time.Second

// Bounds of what is remembered of sessions that have no streams, such as that they have
// ended. One that has ended takes about 400 bytes, which nobody's share counts: whose it
// was may have no session any more.
const (
	maxRemembered = 24 * time.Hour // since the session was last used
	maxEnded      = 10_000         // sessions that have ended
)

// MemoryConfig bounds a Memory. A zero field means its default.
type MemoryConfig struct {
	Count int // events that are kept of one stream; zero: 1000
	// Bytes are kept of one stream. The newest event does not count: it may be an answer
	// that is larger, and a client that lost its connection must get it nevertheless.
	// Zero: 1 MiB.
	Bytes int
	// Age is how long an event is kept, and a stream that nobody reads, but for
	// leastKept. Zero: 5 m.
	Age time.Duration
	// Memory is the budget of the process, of bytes. Half of it at most is for streams,
	// and shared out like the whole, so that a user whose answers fill its part of that
	// can still make requests. nil: its own, of share.DefaultMemory.
	Memory *share.Budget
	Now    func() time.Time // nil: time.Now
}

// Memory is a Log in the memory of this process, for a gateway with one replica. It is
// safe for concurrent use.
//
// It has no goroutine: each Append, Find and End sweeps away what is too old. A follower
// holds an entry in a list.
type Memory struct {
	config MemoryConfig
	budget *share.Budget // the part of config.Memory that streams may take
	most   int64         // bytes that one event may have
	began  time.Time     // when it was made
	// dropped is called with the mutex held when a stream that others share has lost its
	// oldest event, with the data of that, or is about to be forgotten with all it has.
	// nil: nobody is told.
	dropped func(s *memoryStream, oldest []byte, forgotten bool)
	// remembered is for how long a session is remembered that has no streams, since it
	// was last used: maxRemembered, or less where Redis remembers it.
	remembered time.Duration

	mu       sync.Mutex // guards the fields below and everything they lead to
	sessions map[string]*memorySession
	holders  map[share.User]*holder
	tenants  map[string]int64 // bytes of the events of each
	// names of sessions that have ended and are in sessions; the one that ended first is
	// first
	ended []string
	swept time.Time // when sweep last looked
}

var _ Log = (*Memory)(nil)

// memorySession is one session. One that has ended is still there, without streams, so
// that an event which comes late does not open it again.
type memorySession struct {
	name  string
	owner share.User
	// sequence is that of the newest event of any of its streams. All streams count
	// together, so that an id is not used twice even if a stream is dropped and begins
	// anew under its name.
	sequence uint64
	streams  map[string]*memoryStream // by name; nil: there was none yet
	follow   []Follower               // told of each event and at the end
	ended    bool
	touched  time.Duration // when it was last used, since the Memory was made
}

// memoryStream is one stream, with those of its events that were not dropped.
type memoryStream struct {
	session *memorySession
	name    string
	events  []memoryEvent // in order of sequence
	floor   uint64        // sequence of the newest event that was dropped; zero: none was
	bytes   int           // of its events
	last    bool          // its last event was appended: the newest one
	touched time.Duration // when it was last read or appended to, since the Memory was made
	full    *list.Element // in holder.full; nil: it has no events
	shared  *sharedStream // what a Redis knows of it; nil: no other replica does
}

// memoryEvent is one event and when it came.
type memoryEvent struct {
	sequence uint64
	data     []byte
	at       time.Duration // since the Memory was made
}

// NewMemory returns an empty Memory.
func NewMemory(cfg MemoryConfig) *Memory {
	cfg.Count = cmp.Or(cfg.Count, 1000)
	cfg.Bytes = cmp.Or(cfg.Bytes, 1<<20)
	cfg.Age = cmp.Or(cfg.Age, 5*time.Minute)
	cfg.Memory = cmp.Or(cfg.Memory, share.New(share.DefaultMemory))
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	budget := share.New(cfg.Memory.Total() / streamsPart)
	return &Memory{
		config: cfg, budget: budget, most: budget.Most(), remembered: maxRemembered, began: cfg.Now(),
		sessions: make(map[string]*memorySession), holders: make(map[share.User]*holder),
		tenants: make(map[string]int64),
	}
}

// Begin implements Log.
func (m *Memory) Begin(_ context.Context, session Key, stream string) (lasting bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err = m.openLocked(session, stream, m.config.Now())
	return err == nil, err
}

// Append implements Log.
func (m *Memory) Append(_ context.Context, session Key, stream string, data []byte,
	last bool,
) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.readyLocked(session, stream, len(data))
	if err != nil {
		return "", err
	}
	s.session.sequence++
	m.addLocked(s, s.session.sequence, data, last)
	return eventID(stream, s.session.sequence), nil
}

// readyLocked returns a stream that takes an event of so many bytes, for which it has
// taken room. The errors are those of Append.
func (m *Memory) readyLocked(session Key, stream string, size int) (*memoryStream, error) {
	now := m.config.Now()
	m.sweepLocked(now)
	s, err := m.openLocked(session, stream, now)
	switch {
	case err != nil:
		return nil, err
	case s.last:
		return nil, ErrUnknown
	}
	m.trimLocked(s, now)
	return s, m.reserveLocked(s, int64(eventCost+size))
}

// addLocked adds an event for which readyLocked has taken room. It came when the stream
// was last used.
func (m *Memory) addLocked(s *memoryStream, sequence uint64, data []byte, last bool) {
	s.events = append(s.events, memoryEvent{sequence, data, s.touched})
	s.last = last
	m.grownLocked(s, eventCost+len(data))
	s.session.rouse()
}

// Read implements Log.
func (m *Memory) Read(_ context.Context, session Key, stream, after string) (events []Event, more bool,
	err error,
) {
	sequence, ok := afterIn(stream, after)
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.findLocked(session, stream)
	if !ok || s == nil || !s.has(sequence) {
		return nil, false, ErrUnknown
	}
	m.touchLocked(s, m.config.Now())
	return s.after(sequence), !s.last, nil
}

// Drop implements Log.
func (m *Memory) Drop(_ context.Context, session Key, stream, through string) {
	name, sequence, ok := parseID(through)
	if !ok || name != stream {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.findLocked(session, stream)
	for s != nil && len(s.events) > 0 && s.events[0].sequence <= sequence {
		m.dropOldestLocked(s)
	}
}

// Follow implements Log.
func (m *Memory) Follow(_ context.Context, session Key, f Follower) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessionLocked(session)
	if s.ended {
		return ErrUnknown
	}
	s.follow, s.touched = append(s.follow, f), m.now()
	return nil
}

// Unfollow implements Log.
func (m *Memory) Unfollow(session Key, f Follower) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sessions[session.Name]; s != nil {
		s.follow = slices.DeleteFunc(s.follow, func(one Follower) bool { return one == f })
	}
}

// Find implements Log.
func (m *Memory) Find(_ context.Context, session Key, event string) (string, error) {
	name, sequence, ok := parseID(event)
	if !ok {
		return "", ErrUnknown
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked(m.config.Now())
	if s := m.findLocked(session, name); s == nil || !s.has(sequence) {
		return "", ErrUnknown
	}
	return name, nil
}

// Notify implements Log: nobody else leads a session of this process.
func (m *Memory) Notify(ctx context.Context, session Key, stream string, _ uint64,
	data []byte,
) (string, error) {
	return m.Append(ctx, session, stream, data, false)
}

// End implements Log. The name of the session stays taken, so that an event that comes
// late does not open it again.
func (m *Memory) End(session Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweepLocked(m.config.Now())
	s := m.sessionLocked(session)
	if s.ended {
		return
	}
	for _, stream := range s.streams {
		m.forgetLocked(stream)
	}
	s.ended, s.touched = true, m.now()
	s.rouse()
	s.follow = nil
	if m.ended = append(m.ended, session.Name); len(m.ended) > maxEnded {
		delete(m.sessions, m.ended[0])
		m.ended = m.ended[1:]
	}
}

// now returns the time since the Memory was made.
func (m *Memory) now() time.Duration { return m.config.Now().Sub(m.began) }

// sessionLocked returns a session, which it makes if it is not there.
func (m *Memory) sessionLocked(key Key) *memorySession {
	s := m.sessions[key.Name]
	if s == nil {
		s = &memorySession{name: key.Name, owner: key.Owner}
		m.sessions[key.Name] = s
	}
	return s
}

// findLocked returns what is here of a stream, nil if nothing is, as of a session that
// has ended.
func (m *Memory) findLocked(session Key, stream string) *memoryStream {
	if owner := m.sessions[session.Name]; owner != nil {
		return owner.streams[stream]
	}
	return nil
}

// endedLocked returns ErrUnknown if a session has ended.
func (m *Memory) endedLocked(session Key) error {
	if owner := m.sessions[session.Name]; owner != nil && owner.ended {
		return ErrUnknown
	}
	return nil
}

// openLocked returns a stream, which it makes if it is not there. It counts as a use of
// the stream and the session. The error is ErrUnknown if the session has ended, or one of
// package share if there is no room.
func (m *Memory) openLocked(session Key, stream string, now time.Time) (*memoryStream, error) {
	owner := m.sessionLocked(session)
	if owner.ended {
		return nil, ErrUnknown
	}
	s := owner.streams[stream]
	if s == nil {
		s = &memoryStream{session: owner, name: stream}
		if err := m.reserveLocked(s, streamCost); err != nil {
			return nil, err
		}
		if owner.streams == nil {
			owner.streams = make(map[string]*memoryStream, 1)
		}
		owner.streams[stream] = s
	}
	m.touchLocked(s, now)
	return s, nil
}

// touchLocked notes that a stream, and so its session, is used.
func (m *Memory) touchLocked(s *memoryStream, now time.Time) {
	s.touched = now.Sub(m.began)
	s.session.touched = s.touched
	if s.full != nil {
		m.holders[s.session.owner].full.MoveToBack(s.full)
	}
}

// trimLocked drops the oldest events of a stream until it is within its bounds with one
// more, which itself counts only as one.
func (m *Memory) trimLocked(s *memoryStream, now time.Time) {
	oldest := now.Sub(m.began) - m.config.Age
	for len(s.events) > 0 && (len(s.events) >= m.config.Count || s.bytes > m.config.Bytes ||
		s.events[0].at < oldest) {
		m.dropOldestLocked(s)
	}
}

// forgetLocked forgets a stream, with all that it has.
func (m *Memory) forgetLocked(s *memoryStream) {
	m.droppedLocked(s, nil, true)
	m.emptyLocked(s)
	m.giveLocked(s.session.owner, streamCost)
	if delete(s.session.streams, s.name); len(s.session.streams) == 0 {
		s.session.streams = nil // most sessions are idle, and a map takes room
	}
}

// kept returns for how long a stream is kept that nobody reads.
func (m *Memory) kept() time.Duration { return max(m.config.Age, leastKept) }

// sweepLocked forgets streams that nobody has used for so long. It also forgets sessions
// that have no streams and were not used for longer than remembered. It looks at most ten
// times within the age of events, because it goes through all sessions.
func (m *Memory) sweepLocked(now time.Time) {
	if now.Sub(m.swept) < m.config.Age/10 {
		return
	}
	m.swept = now
	at := now.Sub(m.began)
	for len(m.ended) > 0 && at-m.sessions[m.ended[0]].touched > m.remembered {
		delete(m.sessions, m.ended[0])
		m.ended = m.ended[1:]
	}
	for name, s := range m.sessions {
		for _, stream := range s.streams {
			if at-stream.touched > m.kept() {
				m.forgetLocked(stream)
			}
		}
		if len(s.streams) == 0 && len(s.follow) == 0 && !s.ended && at-s.touched > m.remembered {
			delete(m.sessions, name)
		}
	}
}

// after returns the events whose sequence is higher.
func (s *memoryStream) after(sequence uint64) []Event {
	var events []Event
	for i, e := range s.events {
		if e.sequence > sequence {
			events = append(events, Event{
				ID: eventID(s.name, e.sequence), Data: e.data, Last: s.last && i == len(s.events)-1,
				LocalOnly: s.shared.isLocalOnly(e.sequence),
			})
		}
	}
	return events
}

// has tells whether every event after the one with that sequence is still here. That is
// so if the event itself is kept, or if it is the newest of those that were dropped.
// Sequence 0 stands for the beginning, which is the floor as long as nothing was dropped.
// It is not enough that the sequence is above the floor: streams of a session share the
// numbers, so such a number may be that of another stream's event.
func (s *memoryStream) has(sequence uint64) bool {
	return sequence == s.floor ||
		slices.ContainsFunc(s.events, func(e memoryEvent) bool { return e.sequence == sequence })
}

// rouse tells all who follow the session. Those whose stream has nothing new read in
// vain.
func (s *memorySession) rouse() {
	for _, f := range s.follow {
		f.Appended()
	}
}
