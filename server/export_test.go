package server

// Desk is what a test puts in the place of the gateway, to misbehave on purpose.
type Desk = desk

// NewWithDesk returns a server in front of a desk of the test's.
func NewWithDesk(cfg Config, d Desk) *Server { return newServer(cfg, d) }

// MaxLowered is how many lists are remembered in the form of another revision.
const MaxLowered = maxLowered

// LoweredLists returns how many are remembered now.
func (s *Server) LoweredLists() int {
	s.lists.mu.Lock()
	defer s.lists.mu.Unlock()
	return len(s.lists.known)
}
