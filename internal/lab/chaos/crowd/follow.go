package crowd

import (
	"fmt"
	"net/http"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// follow keeps the stream of a session open, makes changes and waits until it is told of
// them. When the stream breaks, it resumes it, where it is told of what it missed; now
// and then it breaks it itself.
func (p *person) follow() {
	p.eachRound(func() time.Duration {
		s, later := p.open()
		if s == nil {
			return later
		}
		w := &watch{own: p.things(), lists: true, retry: time.Second, seen: map[string]bool{}}
		for _, uri := range w.own {
			if s.watches(uri) {
				w.uris = append(w.uris, uri)
			}
		}
		more := func() bool { return !p.crowd.stopping() && p.rounds%roundsOpen != roundsOpen-1 }
		for !s.gone && p.crowd.life.Err() == nil && (w.owed != nil || more()) {
			world.Pause(p.crowd.life, s.along(w))
		}
		s.close()
		return 0
	})
}

// watches subscribes to a resource.
func (s *session) watches(uri string) bool {
	ctx, cancel := s.patient()
	defer cancel()
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"resources/subscribe","params":{"uri":%q}}`,
		s.nextID(), uri)
	response, err := s.send(ctx, "/mcp", body, s.header())
	if err != nil {
		return false
	}
	if response.status != http.StatusOK {
		s.refusal(response)
		return false
	}
	_, ok := s.result(response)
	return ok
}

// along opens or resumes the stream and goes along with it until it ends, for some rounds
// at most. It returns how long to wait before the next connection.
func (s *session) along(w *watch) time.Duration {
	ctx, begun, cancel := s.lasting()
	defer cancel()
	header := s.header()
	if w.last != "" {
		header[mcp.HeaderLastEventID] = w.last
	}
	response, err := s.get(ctx, http.MethodGet, "/mcp", header)
	if err != nil {
		return max(w.retry, 100*time.Millisecond)
	}
	if response.status != http.StatusOK {
		refusal := s.refusal(response)
		if refusal.code == "DB-EVENT" {
			w.last, w.owed = "", nil // what was missed is gone, and a new stream is to be opened
		}
		return max(refusal.later, 100*time.Millisecond)
	}
	begun()
	if w.last != "" {
		s.crowd.deeds.resumed.Add(1)
	}
	if !w.ended.IsZero() {
		longest(&s.crowd.tally.longestGap, time.Since(w.ended))
		w.ended = time.Time{}
	}
	w.heard, w.unnumbered = make(chan *mcp.Message, watched), false
	go s.read(w, response) // it is waited for below
	by := caller{s.call, s.list, func() bool { return s.gone }}
	open := true
	if w.owed != nil {
		w.owed.resumed++
		open = s.await(w, by)
	}
	for i := 0; open && i < roundsOpen/4 && !s.gone && !s.crowd.stopping(); i++ {
		var later time.Duration
		open, later = s.change(w, by)
		s.rounds++
		world.Pause(ctx, max(later, s.crowd.config.Pause))
	}
	cancel()
	for range w.heard { // until it has ended
	}
	w.forgive(!s.crowd.config.Forgetful)
	return w.retry
}
