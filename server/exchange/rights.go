package exchange

import (
	"context"
	"errors"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// Resolve finds out anew what a principal may do whose token was accepted earlier. It is
// false if the token would not be accepted now, or its tenant is not served any more.
// That the token has expired ends nothing here: a stream ends by itself then, and a call
// may take longer than its token lasts.
func (s *Service) Resolve(p auth.Principal) (gateway.Caller, bool) {
	if s.config.Recheck(Unexpired(p)) != nil {
		return gateway.Caller{}, false
	}
	caller, err := s.Desk.Resolve(p)
	return caller, err == nil
}

// Unexpired returns a principal whose token has not expired.
func Unexpired(p auth.Principal) auth.Principal {
	if now := time.Now(); p.Expiry.Before(now) {
		p.Expiry = now.Add(time.Hour)
	}
	return p
}

// Accepts tells whether a principal whose token was accepted earlier could come in now.
func (s *Service) Accepts(p auth.Principal) bool {
	_, ok := s.Resolve(p)
	return ok
}

// IsOutdated tells whether the caller could not come in any more, because keys, issuers
// or tenants have changed since its token was checked. It is asked after something was
// opened, so that either this finds out or who judges all again.
func (x *Exchange) IsOutdated() bool {
	return x.service.Reauthorized.Load() != x.judged && !x.service.Accepts(x.Principal)
}

// RefuseOutdated returns the refusal of a caller that is outdated.
func (x *Exchange) RefuseOutdated() *Refusal {
	x.Challenge(`error="invalid_token"`, `error_description="`+errToken.Err.Message+`"`)
	return errToken
}

// IsRevoked tells whether a request was cancelled because its caller may not go on. Then
// its answer is not given.
func IsRevoked(ctx context.Context) bool { return errors.Is(context.Cause(ctx), gateway.ErrRevoked) }

// BeginJob makes j, which is new, a job for a request of a caller who is still accepted.
// The context that it returns ends with ctx, and when that caller is not accepted any
// more, or the process stops.
func (s *Service) BeginJob(ctx context.Context, x *Exchange, j *Job, id mcp.ID) (context.Context, *Refusal) {
	j.ID, j.principal = id, x.Principal
	ctx, begun := s.Jobs.begin(ctx, j)
	if !begun {
		return ctx, ErrDraining
	}
	j.Answer.Begin(s.config.Memory, share.User(x.Principal.User()))
	if x.IsOutdated() {
		s.Jobs.Finish(j)
		return ctx, x.RefuseOutdated()
	}
	return ctx, nil
}
