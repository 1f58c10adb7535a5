package crowd

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// follow keeps the stream of a session open, makes changes and waits until it is told of
// them. When the stream breaks, it resumes it, where it is told of what it missed; now
// and then it breaks it itself.
func (p *person) follow() {
	p.eachRound(func() {
		s := p.open()
		if s == nil {
			return
		}
		w := &watch{own: p.things(), lists: true, retry: time.Second, seen: map[string]bool{}}
		w.uris = slices.DeleteFunc(slices.Clone(w.own), func(uri string) bool { return !s.watches(uri) })
		more := func() bool { return !p.crowd.stopping() && p.rounds%roundsOpen != roundsOpen-1 }
		for !s.gone.Load() && p.crowd.life.Err() == nil && (w.owed != nil || more()) {
			s.along(w)
			p.rest(p.crowd.life, w.retry)
		}
		s.close()
	})
}

// watches subscribes to a resource.
func (s *session) watches(uri string) bool {
	ctx, cancel := s.patient()
	defer cancel()
	_, ok := s.result(s.post(ctx, fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":%s,"method":"resources/subscribe","params":{"uri":%q}}`, s.nextID(), uri)))
	return ok
}

// along opens or resumes the stream and goes along with it until it ends, for some rounds
// at most.
func (s *session) along(w *watch) {
	ctx, begun, cancel := s.lasting()
	defer cancel()
	response, err := s.within(ctx, http.MethodGet, nil, w.last)
	if err == nil && response.status != http.StatusOK && s.heard(response).code == lostEvent {
		w.last, w.owed = "", nil // what was missed is gone, and a new stream is to be opened
	}
	if err != nil || response.status != http.StatusOK {
		s.comeLater(soon)
		return
	}
	begun()
	if w.last != "" {
		s.crowd.resumed.Add(1)
	}
	if !w.ended.IsZero() {
		longest(&s.crowd.longestGap, time.Since(w.ended))
		w.ended = time.Time{}
	}
	w.heard, w.unnumbered = make(chan *mcp.Message, watched), false
	go s.read(w, response) // it is waited for below
	open := true
	if w.owed != nil {
		w.owed.resumed++
		open = s.await(w, s)
	}
	for i := 0; open && i < roundsOpen/4 && !s.gone.Load() && !s.crowd.stopping(); i++ {
		open = s.change(w, s)
		s.rounds++
		s.rest(ctx, s.pause)
	}
	cancel()
	for range w.heard { // until it has ended
	}
	w.forgive(!s.crowd.config.Forgetful)
}
