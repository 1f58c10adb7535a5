package server

import (
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/sessions"
	"github.com/drawbridge-mcp/drawbridge/server/streams"
)

// Desk is what a test puts in the place of the gateway, to misbehave on purpose.
type Desk = exchange.Desk

// NewWithDesk returns a server in front of a desk of the test's.
func NewWithDesk(cfg Config, d Desk) *Server { return newServer(cfg, d) }

// OpeningTime is how long a session whose client said nothing yet is not evicted.
const OpeningTime = sessions.OpeningTime

// FlowWorkers is how many goroutines send at once what streams have.
const FlowWorkers = streams.FlowWorkers

// WriteSize is how many bytes of a stream are written at once, at most.
const WriteSize = exchange.WriteSize

// HoldRoster holds what guards the order of sessions, until release is called.
func HoldRoster(s *Server) (release func()) {
	return s.legacy.HoldRoster()
}

// HasTaken tells whether a server has taken a connection over from net/http.
func HasTaken(s *Server) bool {
	return s.streams.Taken() > 0
}
