package server

// Desk is what a test puts in the place of the gateway, to misbehave on purpose.
type Desk = desk

// NewWithDesk returns a server in front of a desk of the test's.
func NewWithDesk(cfg Config, d Desk) *Server { return newServer(cfg, d) }
