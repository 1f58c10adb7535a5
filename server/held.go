package server

import (
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// held is what a request in work takes of what all requests share.
type held struct {
	place bool        // among the requests in work
	body  share.Lease // of the memory of its body
}

// leave gives back what the request holds; further calls do nothing. It also drops what the message said, so that an
// idle stream does not keep it in memory.
func (s *Server) leave(x *exchange) {
	s.giveBack(x.held)
	x.held, x.meta = held{}, mcp.Object{}
}

// rest gives back only the place among the requests in work, when the request begins to wait for something slow. The
// memory of its body stays leased.
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
	h.body.Release()
}
