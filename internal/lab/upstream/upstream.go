// Package upstream is MCP servers to stand behind gateways. They do not know who calls.
// Quick costs as little as it can. Careless answers without reading. Server counts what
// it does, and misbehaves on command.
package upstream

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/ledger"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// Server counts what it does: each execution of a tool gets a serial number and goes into
// a list that outlives its crashes. It serves revision 2026-07-28 at /mcp and 2025-11-25
// with sessions at /legacy. The arguments of a call say who calls. It is safe for
// concurrent use.
type Server struct {
	Address string // host:port

	modern, legacy *side

	behaviour atomic.Int64 // a Behaviour

	mu         sync.Mutex // guards the fields below
	run        *run       // nil after Crash
	serial     uint64     // of the last execution
	executions []ledger.Execution
}

// run is the time from a start to a crash.
type run struct {
	http   *http.Server
	cancel context.CancelFunc // of all that works
	served chan struct{}      // closed when nothing is served any more
}

// Start serves at a loopback address, such as one of freeport.Address.
func Start(address string) *Server {
	var random [4]byte
	_, _ = rand.Read(random[:]) // it never fails
	s := &Server{Address: address, serial: uint64(binary.BigEndian.Uint32(random[:])) << 20}
	s.modern, s.legacy = &side{server: s, era: "modern"}, &side{server: s, era: "legacy"}
	s.Revive()
	return s
}

// Close ends the server and all that runs in it.
func (s *Server) Close() { s.Crash() }

// Crash closes all connections, stops listening and forgets sessions and whatever runs.
// Executions stay known.
func (s *Server) Crash() {
	s.mu.Lock()
	r := s.run
	s.run = nil
	s.mu.Unlock()
	if r == nil {
		return
	}
	_ = r.http.Close() // nothing is to be saved, and connections are to break before what works on them ends
	r.cancel()
	<-r.served
	s.modern.forget()
	s.legacy.forget()
}

// Revive listens again after Crash, at the same address.
func (s *Server) Revive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	must.Be(s.run == nil, "the server runs already")
	ctx, cancel := context.WithCancel(context.Background())
	defer must.Else(cancel)
	listener := must.Have((&net.ListenConfig{}).Listen(ctx, "tcp", s.Address))
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", s.serveModern)
	mux.HandleFunc("/legacy", func(w http.ResponseWriter, r *http.Request) { s.serveLegacy(ctx, w, r) })
	r := &run{
		http: &http.Server{
			Handler: mux, ReadHeaderTimeout: time.Minute,
			BaseContext: func(net.Listener) context.Context { return ctx },
		},
		cancel: cancel, served: make(chan struct{}),
	}
	go func() {
		defer close(r.served)      // Crash waits
		_ = r.http.Serve(listener) // until Crash
	}()
	s.run = r
}

// Executions returns all executions since Start.
func (s *Server) Executions() []ledger.Execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]ledger.Execution(nil), s.executions...)
}

// begin enters an execution, and returns its serial and how to enter its end.
func (s *Server) begin(c *call) (serial uint64, end func(cancelled bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serial++
	at := len(s.executions)
	s.executions = append(s.executions, ledger.Execution{
		Serial: s.serial, Nonce: c.nonce(), Tenant: c.arguments.Text("tenant"), Tool: c.tool, Era: c.side.era,
		At: time.Now(),
	})
	return s.serial, func(cancelled bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.executions[at].Ended, s.executions[at].Cancelled = time.Now(), cancelled
	}
}
