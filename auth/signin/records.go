package signin

import (
	"context"
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
)

// OutcomeEnded is the word of the audit for a family of tokens that ended before its
// time.
const OutcomeEnded = "ended"

// record returns a line of the audit about a family. The path of the request says what it
// was, and whoever keeps records adds that.
func (f *family) record(outcome, reason string) audit.Record {
	line := audit.Record{
		TenantID: f.Tenant, Issuer: f.Issuer, Subject: f.Subject, Name: f.Name,
		ClientID: f.Ask.Client.Short(), Outcome: outcome, Reason: reason,
	}
	if f.unfit != nil {
		line.Claim, line.Found, line.Expected = f.unfit.Claim, f.unfit.Found, f.unfit.Expected
	}
	return line
}

// OutcomeOf returns the word of audit and log for a refusal that is answered with the
// status.
func OutcomeOf(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "unauthenticated"
	case status == http.StatusForbidden:
		return "forbidden"
	case status >= http.StatusInternalServerError:
		return "unavailable"
	}
	return "invalid_request"
}

// tellEnd puts on record that a family has ended. Many end at a time where one request
// ends all of a person, and what is on record of a request comes one after the other.
func (s *core) tellEnd(ctx context.Context, f *family, reason string) {
	s.config.Records.FamilyEnded(reason)
	s.telling.Lock()
	defer s.telling.Unlock()
	s.config.Audit(ctx, f.record(OutcomeEnded, reason))
}
