package exchange

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
)

// tally counts a request of somebody who is not let in, and tells whether it is told in a
// line of its own. Whom nobody knows and who comes again and again waits for each further
// answer, but for what stands in the log alone and is cheap, such as a path that is not
// there.
func (s *Service) tally(x *Exchange, who sumKey) (own bool) {
	who.network = networkOf(x.Remote)
	form, often := s.sums.count(who, x.Started)
	x.lineForm = form
	if often && who.user.TenantID == "" && (!who.logged || who.method != "") {
		x.delay(&s.unauthenticated)
	}
	return form == lineOwn
}

// RecordUnadmitted puts the refusal of a caller that is not let in on record, or counts
// it for the line at the end of the window. Whom nobody knows and who is refused again
// and again waits for each further answer.
func (s *Service) RecordUnadmitted(x *Exchange, outcome, reason string) {
	who := sumKey{outcome: outcome, reason: reason, user: x.Principal.User()}
	if x.Refused != nil {
		who.user.Issuer = x.Refused.Issuer
	}
	if s.tally(x, who) {
		x.record(outcome, reason)
		return
	}
	s.Metrics.Refused(outcome, who.user.TenantID, reason)
}

// RecordSignIn puts on record what the authorization server did: for the request in ctx,
// or by itself if ctx has none. What it refuses strangers is told as other refusals of
// strangers are, so it tells whether the log is to have a line, too, and who is refused
// again and again waits for the answer. A stranger is who has no tenant: at some
// providers anybody can be somebody.
func (s *Service) RecordSignIn(ctx context.Context, r audit.Record) bool {
	x := FromContext(ctx)
	if x == nil {
		r.Time = time.Now()
		s.Desk.Note(ctx, r)
		return true
	}
	r.Time, r.RequestID, r.Remote, r.Method = x.Started, x.ID, x.Remote, x.Method
	r.Duration = time.Since(x.Started)
	who := sumKey{outcome: r.Outcome, reason: r.Reason, user: auth.User{Issuer: r.Issuer}, method: x.Method}
	if r.TenantID == "" && !s.tally(x, who) {
		return false
	}
	x.lineForm = lineOwn
	s.Desk.Note(x.Outliving(), r)
	return true
}

// hasOwnLine tells whether the log has a line for the request, which is over. Requests of
// such callers that are on record are in the log as they are there; all others, such as
// those for the metadata or for a path that is not there, are counted here. So are
// requests to sign in that nobody is known of yet. They cost more than a refusal, so who
// sends many waits here, before the end of the answer: only one with tokens is for
// somebody who has proved something.
func (s *Service) hasOwnLine(x *Exchange) bool {
	if x.lineForm == lineUndecided && x.Principal.Issuer == "" {
		who := sumKey{outcome: x.Outcome, logged: true}
		if strings.HasPrefix(x.Method, SignInMethods) && x.Method != SignInMethods+"token" {
			who.method = x.Method
		}
		return s.tally(x, who)
	}
	return x.lineForm != lineSummed
}

// SignInMethods is how the methods begin that log and audit name for requests to the
// authorization server.
const SignInMethods = "oauth/"

// RecordSums puts the sums of the window on record and into the log, and begins a
// new one. A sum that panics is lost, the others are not.
func (s *Service) RecordSums(ctx context.Context) {
	for _, sum := range s.sums.endWindow() {
		s.Safely(ctx, func() {
			line := []slog.Attr{
				slog.Int("count", sum.Count), slog.String("outcome", sum.Outcome),
				slog.String("reason", sum.Reason), slog.String("issuer", sum.Issuer),
				slog.String("remote", sum.Remote), slog.Time("since", sum.Time),
				slog.Float64("duration_seconds", sum.Duration.Seconds()),
			}
			if sum.TenantID != "" {
				line = append(line, slog.String("tenant", sum.TenantID))
			}
			s.Log.LogAttrs(ctx, slog.LevelInfo, "requests", line...)
			if !sum.logged {
				s.Desk.Refuse(ctx, sum.Record)
			}
		})
	}
}
