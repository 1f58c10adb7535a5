package upstream

import (
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// shelf is the server's place in the catalogue. What the server offers stands there,
// leaves the lists when the server was lost and its grace is over, and comes back with
// the server. It is safe for concurrent use.
type shelf struct {
	cfg *Config
	reg *registry.Registry

	mu     sync.Mutex  // guards the fields below
	since  time.Time   // when the server was last lost
	fading *time.Timer // takes the items out of the lists when the grace is over; nil: no grace is running
}

// lose tells the catalogue that the server is not there, and takes its items out of the
// lists as soon as the grace is over. The grace counts from the beginning of an outage:
// attempts to connect that fail meanwhile do not prolong it.
func (s *shelf) lose() {
	outage := s.reg.Lose(s.cfg.Name, s.cfg.Prefix)
	rest := s.cfg.Grace - time.Since(outage.Since)
	s.stopFading()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = outage.Since
	if rest > 0 {
		// When the server is back just as the timer fires, the catalogue knows that this
		// outage is over.
		s.fading = time.AfterFunc(rest, func() { s.reg.Unlist(s.cfg.Name, outage) })
		return
	}
	s.reg.Unlist(s.cfg.Name, outage)
}

// stopFading keeps the timer of the grace from firing. When Run ends, whoever gives the
// server up removes its items.
func (s *shelf) stopFading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fading != nil {
		s.fading.Stop()
		s.fading = nil
	}
}

// lostSince returns when the server was last lost.
func (s *shelf) lostSince() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since
}
