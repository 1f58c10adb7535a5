package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream/wire"
)

// Status is what operators are told of an upstream: whether it is connected, what it
// offers, and what is wrong with it.
type Status struct {
	Server   string
	Up       bool
	Tried    bool // at least one attempt to connect has ended, well or badly
	Revision string

	registry.Offered

	// definitions left out; with reason "list", a whole list that could not be read
	Refused  []registry.Refusal
	Idle     []string // digests of Config.Released that release nothing; none until every list was read
	Restarts int
	// Failed and Lost are of the time since the server was up, or since the start of one
	// that never was; of a server that is up, of the time before: how many attempts to
	// connect have failed, and why it was lost ("": it never was up).
	Failed  int
	Lost    string
	Problem string    // why the server is down; "" when it is up
	Said    []string  // the last lines that its child wrote to standard error, cleaned: they often say why
	Since   time.Time // when the server went down, or was first tried; zero when it is up
	Advice  string    // what operators should mend although the server is up; "": nothing
}

// Load is what an upstream costs at one moment.
type Load struct {
	// Processes are the children that were started and have not ended, those that are
	// just starting or ending included. What a child starts in its turn is not counted:
	// with npx, for example, npx is counted and the server that it runs is not.
	Processes int
	// Sessions are those of the legacy era that are open, being opened or being closed,
	// the control connection of a legacy server included. The connection to a modern
	// server is not a session.
	Sessions int
}

// standing holds the latest Status of an upstream and tells it to whoever wants to know.
// It belongs to the supervisor: to Run, and to follow as long as that runs.
type standing struct {
	tell    func(Status)
	logger  *slog.Logger
	status  Status // with a revision once it was up
	advised bool   // the advice is in the log
}

// up records that the upstream is connected and what it offers now. A return after a loss
// counts as a restart.
func (s *standing) up(now Status) {
	now.Server, now.Up, now.Tried, now.Restarts, now.Advice = s.status.Server, true, true, s.status.Restarts,
		s.status.Advice
	now.Failed, now.Lost = s.status.Failed, s.status.Lost
	if !s.status.Up && s.status.Revision != "" {
		now.Restarts++
	}
	s.status = now
	s.tell(now)
}

// down records that the upstream is lost since that time, and why. It is called when its
// child has ended, so that said is complete.
func (s *standing) down(err error, said []string, since time.Time) {
	failed, lost := s.status.Failed+1, s.status.Lost
	if s.status.Up {
		failed, lost = 0, problem(err)
	}
	s.status = Status{
		Server: s.status.Server, Tried: true, Revision: s.status.Revision, Restarts: s.status.Restarts,
		Failed: failed, Lost: lost, Problem: problem(err),
		Said: said, Since: since,
	}
	s.tell(s.status)
}

// advice is what an operator reads when a modern server has refused a question of its own
// tool.
const advice = "it refused a call with -32600, as a server does whose tool asks its user in the middle of " +
	"a call, for which " +
	mcp.LatestModern + " has no way; if it also serves an older revision in sessions, say revision: " +
	mcp.LatestLegacy

// advise tells the operator how to mend such refusals: in the status as long as the
// connection lasts, and in the log once.
func (s *standing) advise(ctx context.Context) {
	shown, logged := s.status.Advice != "", s.advised
	s.advised, s.status.Advice = true, advice
	if !shown {
		s.tell(s.status)
	}
	if !logged {
		s.logger.WarnContext(ctx, "server cannot ask", slog.String("advice", advice))
	}
}

// adviceOn says what an operator may do about a status, "" where that is not known.
func adviceOn(refused *wire.StatusError) string {
	switch {
	case refused.SignIn:
		return ": it wants a sign-in, so it needs a credential in headers or auth, and one that it takes"
	case refused.Location != "":
		return fmt.Sprintf(": it redirects to %s, and redirects are not followed; if that is the server, "+
			"write it as url", refused.Location)
	case refused.Status == http.StatusNotFound || refused.Status == http.StatusMethodNotAllowed:
		return ": the path of url may be another"
	}
	return ""
}

// problem returns what an operator reads of an error: the cause within, which clients are
// not told, in at most 300 bytes. The cause may quote what the server said, so it is
// cleaned.
func problem(err error) string {
	if refused, ok := errors.AsType[*credential.Error](err); ok {
		err = refused.Err
	}
	text := err.Error()
	if refused, ok := errors.AsType[*wire.StatusError](err); ok {
		text = refused.Error() + adviceOn(refused)
	} else if cause := errors.Unwrap(err); cause != nil {
		text = cause.Error()
	}
	// what a name server did says from which port it was asked, which is another each
	// time, and the log would take the same reason for another one
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		if source, rest, found := strings.Cut(text, "->"); found {
			text = source[:strings.LastIndex(source, " ")+1] + rest
		}
	}
	text = sanitize.Text(strings.ToValidUTF8(text, "\uFFFD"))
	return strings.ToValidUTF8(text[:min(len(text), 300)], "")
}
