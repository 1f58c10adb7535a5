package upstream

import (
	"time"

	"github.com/drawbridge-mcp/drawbridge/registry"
)

// section is the server's place in the catalogue. What the server offers stands there,
// leaves the lists when the server was lost and its grace is over, and comes back with
// the server. It belongs to the goroutine of Run.
type section struct {
	cfg    *Config
	reg    *registry.Registry
	since  time.Time   // when the server was last lost
	fading *time.Timer // takes the items out of the lists when the grace is over; nil: there was none yet
}

// lose tells the catalogue that the server is not there, and takes its items out of the
// lists as soon as the grace is over. The grace counts from the beginning of an outage:
// attempts to connect that fail meanwhile do not prolong it.
func (s *section) lose() {
	outage := s.reg.Lose(s.cfg.Name, s.cfg.Prefix)
	rest := s.cfg.Grace - time.Since(outage.Since)
	s.stopFading()
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
func (s *section) stopFading() {
	if s.fading != nil {
		s.fading.Stop()
	}
}
