package server

import (
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// held is what a request in work takes of what all requests share.
type held struct {
	place *atomic.Int64 // what counts it among the requests in work; nil: nothing does
	body  share.Lease   // of the memory of its body
}

// leave gives back what the request holds; further calls do nothing. It also drops what
// the message said, so that an idle stream does not keep it in memory.
func (s *Server) leave(x *exchange) {
	s.giveBack(x.held)
	x.held, x.meta = held{}, mcp.Object{}
}

// rest gives back only the place among the requests in work, when the request begins to
// wait for something slow. The memory of its body stays leased.
func (s *Server) rest(h *held) {
	if h.place != nil {
		h.place.Add(-1)
		h.place = nil
	}
}

func (s *Server) giveBack(h held) {
	if h.place != nil {
		h.place.Add(-1)
	}
	h.body.Release()
}
