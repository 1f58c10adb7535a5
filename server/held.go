package server

import (
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// held is what a request in work takes of what all share.
type held struct {
	place bool  // among the requests in work
	body  int64 // bytes of maxBodies
}

// leave gives back, once, what the request holds. What it said is not needed any more: an idle stream keeps none of it.
func (s *Server) leave(x *exchange) {
	s.giveBack(x.held)
	x.held, x.meta = held{}, mcp.Object{}
}

// rest gives back the place among the requests in work before the rest of what is held.
func (s *Server) rest(h *held) {
	if h.place {
		h.place = false
		s.working.Add(-1)
	}
}

func (s *Server) giveBack(h held) {
	if h.place {
		s.working.Add(-1)
	}
	s.bodies.Add(-h.body)
}
