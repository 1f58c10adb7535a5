package session

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// What an event and a stream count for beside their data, in bytes.
const (
	eventCost  = 128
	streamCost = 512
)

// What is remembered of sessions without streams: that they ended, and what was kept.
const (
	maxRest  = 24 * time.Hour
	maxEnded = 100_000 // sessions
)

// MemoryConfig bounds a Memory. A zero field means its default.
type MemoryConfig struct {
	Count int              // events kept of one stream; zero: 1000
	Bytes int              // kept of one stream, the newest event not counted; zero: 1 MiB
	Age   time.Duration    // of an event, and of a stream that nobody reads; zero: 5 m
	Total int              // bytes of all streams; zero: 256 MiB
	Now   func() time.Time // zero: time.Now
}

// Memory is a Log in this process. It is safe for concurrent use.
type Memory struct {
	config MemoryConfig

	mu       sync.Mutex // guards the fields below and everything they lead to
	sessions map[string]*memorySession
	byAge    *list.List // of *memoryStream, the one longest untouched first
	ended    []string   // names of sessions, the one that ended first at the front
	bytes    int
	swept    time.Time
}

var _ Log = (*Memory)(nil)

type memorySession struct {
	sequence uint64 // of the newest event of any of its streams, so that an id is never used twice
	streams  map[string]*memoryStream
	kept     map[string]string
	wake     chan struct{} // closed at the next event or the end; nil while nobody waits
	ended    bool
	touched  time.Time
}

type memoryStream struct {
	session *memorySession
	name    string
	events  []memoryEvent
	floor   uint64 // highest sequence that was dropped
	bytes   int
	last    bool // its last event was appended
	touched time.Time
	place   *list.Element // in byAge
}

type memoryEvent struct {
	sequence uint64
	data     []byte
	at       time.Time
	last     bool
}

// NewMemory returns an empty Memory.
func NewMemory(cfg MemoryConfig) *Memory {
	if cfg.Count <= 0 {
		cfg.Count = 1000
	}
	if cfg.Bytes <= 0 {
		cfg.Bytes = 1 << 20
	}
	if cfg.Age <= 0 {
		cfg.Age = 5 * time.Minute
	}
	if cfg.Total <= 0 {
		cfg.Total = 256 << 20
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Memory{config: cfg, sessions: make(map[string]*memorySession), byAge: list.New()}
}

// Append implements Log.
func (m *Memory) Append(_ context.Context, session, stream string, data []byte, last bool) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.config.Now()
	m.sweep(now)
	s := m.open(session, stream, now)
	if s == nil || s.last {
		return "", ErrUnknown
	}
	s.session.sequence++
	event := memoryEvent{sequence: s.session.sequence, data: data, at: now, last: last}
	s.events = append(s.events, event)
	s.last = s.last || last
	m.grow(s, len(data)+eventCost)
	m.trim(s, now)
	m.shrink()
	s.session.rouse()
	return eventID(stream, event.sequence), nil
}

// Read implements Log.
func (m *Memory) Read(_ context.Context, session, stream, after string) ([]Event, <-chan struct{}, error) {
	var sequence uint64
	if after != "" {
		name, n, ok := parseID(after)
		if !ok || name != stream {
			return nil, nil, ErrUnknown
		}
		sequence = n
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.open(session, stream, m.config.Now())
	if s == nil || !s.has(sequence) {
		return nil, nil, ErrUnknown
	}
	events := s.after(sequence)
	if s.last {
		return events, nil, nil
	}
	return events, s.session.waiter(), nil
}

// Find implements Log.
func (m *Memory) Find(_ context.Context, session, event string) (string, error) {
	name, sequence, ok := parseID(event)
	if !ok {
		return "", ErrUnknown
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(m.config.Now())
	owner := m.sessions[session]
	if owner == nil {
		return "", ErrUnknown
	}
	s := owner.streams[name]
	if s == nil || !s.has(sequence) {
		return "", ErrUnknown
	}
	return name, nil
}

// Keep implements Log.
func (m *Memory) Keep(_ context.Context, session, name, text string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[session]
	if s == nil {
		s = &memorySession{streams: make(map[string]*memoryStream)}
		m.sessions[session] = s
	}
	if s.ended {
		return ErrUnknown
	}
	if s.kept == nil {
		s.kept = make(map[string]string)
	}
	s.kept[name], s.touched = text, m.config.Now()
	return nil
}

// Kept implements Log.
func (m *Memory) Kept(_ context.Context, session, name string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sessions[session]
	switch {
	case s == nil:
		return "", nil
	case s.ended:
		return "", ErrUnknown
	}
	s.touched = m.config.Now()
	return s.kept[name], nil
}

// End implements Log. The name stays taken, so that an event that comes late does not open it again.
func (m *Memory) End(_ context.Context, session string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(m.config.Now())
	s := m.sessions[session]
	if s == nil {
		s = &memorySession{}
		m.sessions[session] = s
	}
	if s.ended {
		return nil
	}
	for _, stream := range s.streams {
		m.drop(stream)
	}
	s.kept, s.ended, s.touched = nil, true, m.config.Now()
	s.rouse()
	if m.ended = append(m.ended, session); len(m.ended) > maxEnded {
		delete(m.sessions, m.ended[0])
		m.ended = m.ended[1:]
	}
	return nil
}

// open returns the stream, new when it must be, nil when its session has ended.
func (m *Memory) open(session, stream string, now time.Time) *memoryStream {
	owner := m.sessions[session]
	if owner == nil {
		owner = &memorySession{streams: make(map[string]*memoryStream)}
		m.sessions[session] = owner
	}
	if owner.ended {
		return nil
	}
	owner.touched = now
	s := owner.streams[stream]
	if s == nil {
		s = &memoryStream{session: owner, name: stream}
		s.place = m.byAge.PushBack(s)
		owner.streams[stream] = s
		m.grow(s, streamCost)
	}
	s.touched = now
	m.byAge.MoveToBack(s.place)
	return s
}

func (m *Memory) grow(s *memoryStream, n int) {
	s.bytes += n
	m.bytes += n
}

// trim drops the oldest events of a stream beyond its bounds, but never the newest.
func (m *Memory) trim(s *memoryStream, now time.Time) {
	oldest := now.Add(-m.config.Age)
	for len(s.events) > 1 {
		if len(s.events) <= m.config.Count && s.bytes-streamCost-s.newest() <= m.config.Bytes && !s.events[0].at.Before(oldest) {
			return
		}
		m.dropOldest(s)
	}
}

func (m *Memory) dropOldest(s *memoryStream) {
	event := s.events[0]
	s.events[0] = memoryEvent{}
	s.events = s.events[1:]
	s.floor = event.sequence
	m.grow(s, -len(event.data)-eventCost)
}

// shrink drops what is longest untouched until all streams together fit. A stream in use keeps its newest event.
func (m *Memory) shrink() {
	for e := m.byAge.Front(); e != nil && m.bytes > m.config.Total; {
		s := e.Value.(*memoryStream)
		e = e.Next()
		if e == nil { // the stream just appended to
			for len(s.events) > 1 && m.bytes > m.config.Total {
				m.dropOldest(s)
			}
			return
		}
		m.drop(s)
	}
}

// drop forgets a stream. Its readers find that out when they read again.
func (m *Memory) drop(s *memoryStream) {
	m.bytes -= s.bytes
	m.byAge.Remove(s.place)
	delete(s.session.streams, s.name)
}

// sweep forgets streams that nobody touched for the age of events, and sessions that have none and were left alone for
// longer than any session may live. It looks at most ten times in that age.
func (m *Memory) sweep(now time.Time) {
	if now.Sub(m.swept) < m.config.Age/10 {
		return
	}
	m.swept = now
	for e := m.byAge.Front(); e != nil; {
		s := e.Value.(*memoryStream)
		if now.Sub(s.touched) <= m.config.Age {
			break
		}
		e = e.Next()
		m.drop(s)
	}
	for len(m.ended) > 0 && now.Sub(m.sessions[m.ended[0]].touched) > maxRest {
		delete(m.sessions, m.ended[0])
		m.ended = m.ended[1:]
	}
	for name, s := range m.sessions {
		if len(s.streams) == 0 && !s.ended && now.Sub(s.touched) > maxRest {
			delete(m.sessions, name)
		}
	}
}

// after returns the events with a higher sequence.
func (s *memoryStream) after(sequence uint64) []Event {
	var events []Event
	for _, e := range s.events {
		if e.sequence > sequence {
			events = append(events, Event{ID: eventID(s.name, e.sequence), Data: e.data, Last: e.last})
		}
	}
	return events
}

// has tells whether everything after the event with that sequence is still here: it is the newest of those dropped, or
// one that is kept.
func (s *memoryStream) has(sequence uint64) bool {
	if sequence == s.floor {
		return true
	}
	for _, e := range s.events {
		if e.sequence == sequence {
			return true
		}
	}
	return false
}

// newest returns what the newest event counts for.
func (s *memoryStream) newest() int { return len(s.events[len(s.events)-1].data) + eventCost }

func (s *memorySession) waiter() <-chan struct{} {
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return s.wake
}

func (s *memorySession) rouse() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}
