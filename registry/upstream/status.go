package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Status is how an upstream is.
type Status struct {
	Server   string
	Up       bool
	Tried    bool // at least one attempt has ended
	Revision string

	Tools, Prompts, Resources, Templates int // in the catalogue

	Refused  []registry.Refusal // definitions, and with reason "list" whole lists that could not be read
	Restarts int
	Problem  string    // why it is down, for operators; "" when up
	Said     []string  // the last lines that its child wrote to standard error, cleaned, in case these say why it is down
	Since    time.Time // when it went down, or was first tried; zero when up
	Advice   string    // what operators can mend although it is up; "": nothing
}

// Load is what an upstream costs at the moment.
type Load struct {
	// Processes are the children that were started and have not ended, those that are starting or ending included. What a
	// child starts in its turn is not counted: npx, for one, stays beside the server that it runs.
	Processes int
	// Sessions are those of the legacy era, with the one that only lists, as far as they are open, being opened or being
	// closed. The one connection to a modern server is none.
	Sessions int
}

// standing is what operators are told of an upstream. It is safe for concurrent use.
type standing struct {
	tell   func(Status)
	logger *slog.Logger

	mu      sync.Mutex // guards the fields below
	status  Status
	wasUp   bool
	advised bool // that is in the log
}

// up records what the upstream offers now.
func (s *standing) up(now Status) {
	s.mu.Lock()
	now.Server, now.Up, now.Tried, now.Restarts, now.Advice = s.status.Server, true, true, s.status.Restarts, s.status.Advice
	if !s.status.Up && s.wasUp {
		now.Restarts++
	}
	s.wasUp = true
	s.status = now
	s.mu.Unlock()
	s.tell(now)
}

// down records that the upstream is lost since then, and why. Its child has ended.
func (s *standing) down(err error, said []string, since time.Time) {
	s.mu.Lock()
	s.status = Status{
		Server: s.status.Server, Tried: true, Revision: s.status.Revision, Restarts: s.status.Restarts, Problem: problem(err),
		Said: said, Since: since,
	}
	status := s.status
	s.mu.Unlock()
	s.tell(status)
}

// advice is what an operator reads when a modern server refused a question of its own tool.
const advice = "it refused a call with -32600, as a server does whose tool asks its user in the middle of a call, for which " +
	mcp.LatestModern + " has no way; if it also serves an older revision in sessions, say revision: " + mcp.LatestLegacy

// advise tells the operator what mends such refusals: in the status as long as this connection lasts, in the log once.
func (s *standing) advise(ctx context.Context) {
	s.mu.Lock()
	told, logged := s.status.Advice != "", s.advised
	s.advised, s.status.Advice = true, advice
	status := s.status
	s.mu.Unlock()
	if !told {
		s.tell(status)
	}
	if !logged {
		s.logger.WarnContext(ctx, "server cannot ask", slog.String("advice", advice))
	}
}

// problem is what an operator reads: the error with its hidden cause, in a bounded length.
func problem(err error) string {
	text := err.Error()
	if cause := errors.Unwrap(err); cause != nil {
		text = cause.Error()
	}
	return text[:min(len(text), 300)]
}
