// Package upstream is an MCP server that counts what it does: each execution of a tool gets a serial number and goes
// into a list, which nobody can lose. It serves revision 2026-07-28 at /mcp and 2025-11-25 with sessions at /legacy. It
// misbehaves on command. It does not know who calls; the arguments of a call say that.
package upstream

import (
	"github.com/drawbridge-mcp/drawbridge/internal/chaos/ledger"
)

// Server is the server. It is safe for concurrent use.
type Server struct {
	Address string // host:port
}

// Start serves at a loopback address, such as one of freeport.Address. name is what its executions say in Server.
func Start(name, address string) (*Server, error) { return &Server{Address: address}, nil }

// Close ends the server and all that runs in it.
func (s *Server) Close() {}

// Crash closes all connections, stops listening and forgets sessions and whatever runs. Executions stay known.
func (s *Server) Crash() {}

// Revive listens again after Crash, at the same address.
func (s *Server) Revive() error { return nil }

// Behave makes the server do what b says with each call from now on, until the next Behave. Behave(Well) heals it.
func (s *Server) Behave(b Behaviour) {}

// Executions returns all executions since Start.
func (s *Server) Executions() []ledger.Execution { return nil }

// Behaviour is how a server answers calls of tools, and of lists where it says so.
type Behaviour int

// How a server may behave.
const (
	Well       Behaviour = iota
	Hang                 // calls are accepted and never answered
	Drip                 // answers come one byte a second
	Garbage              // random bytes instead of an answer
	Oversized            // an answer of 256 MiB, and lists with lines without end
	WrongID              // answers have an id that nobody used
	TwoAnswers           // each answer comes twice
	OthersID             // answers have the id of another call in flight, if there is one
	Flood                // thousands of notifications before each answer
	HalfClose            // the server stops writing in the middle of an answer, and keeps the connection
	Reset                // connections are reset in the middle of an answer
	HTML                 // status 200 and a page instead of an answer
	Endless              // lists have a next page for ever
)
