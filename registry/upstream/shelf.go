package upstream

import (
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// shelf is the server's place in the catalogue: what it offers stands there, fades when the server is lost and its grace is
// over, and returns with it. It is safe for concurrent use.
type shelf struct {
	cfg *Config
	reg *registry.Registry

	mu     sync.Mutex  // guards the fields below
	since  time.Time   // when the server was lost last
	fading *time.Timer // takes its items out of the lists, unless it is back before; nil: they are out, or were never in
}

// lose tells the catalogue that the server is not there, and takes its items out of the lists when the grace is over.
// What was lost before stays lost since then.
func (s *shelf) lose() {
	outage := s.reg.Lose(s.cfg.Name, s.cfg.Prefix)
	rest := s.cfg.Grace - time.Since(outage.Since)
	s.stopFading()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = outage.Since
	if rest > 0 {
		// When the server is back just as the timer fires, the catalogue knows that this outage is over.
		s.fading = time.AfterFunc(rest, func() { s.reg.Unlist(s.cfg.Name, outage) })
		return
	}
	s.reg.Unlist(s.cfg.Name, outage)
}

func (s *shelf) stopFading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fading != nil {
		s.fading.Stop()
		s.fading = nil
	}
}

// lostSince returns when the server was lost last.
func (s *shelf) lostSince() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since
}
