package server

import (
	"context"
	"errors"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// resolve finds out anew what a principal may do whose token was accepted earlier. It is
// false if the token would not be accepted now, or its tenant is not served any more.
// That the token has expired ends nothing here: a stream ends by itself then, and a call
// may take longer than its token lasts.
func (s *service) resolve(p auth.Principal) (gateway.Caller, bool) {
	if s.config.Judge(unexpired(p)) != nil {
		return gateway.Caller{}, false
	}
	caller, err := s.desk.Resolve(p)
	return caller, err == nil
}

// unexpired returns a principal whose token has not expired.
func unexpired(p auth.Principal) auth.Principal {
	if now := time.Now(); p.Expiry.Before(now) {
		p.Expiry = now.Add(time.Hour)
	}
	return p
}

// accepts tells whether a principal whose token was accepted earlier could come in now.
func (s *service) accepts(p auth.Principal) bool {
	_, ok := s.resolve(p)
	return ok
}

// isOutdated tells whether the caller could not come in any more, because keys, issuers
// or tenants have changed since its token was checked. It is asked after something was
// opened, so that either this finds out or judgeAgain.
func (x *exchange) isOutdated() bool {
	return x.service.judged.Load() != x.judged && !x.service.accepts(x.principal)
}

// refuseOutdated returns the refusal of a caller that is outdated.
func (x *exchange) refuseOutdated() *refusal {
	x.challenge(`error="invalid_token"`, `error_description="`+errToken.told.Message+`"`)
	return errToken
}

// isRevoked tells whether a request was cancelled because its caller may not go on. Then
// its answer is not given.
func isRevoked(ctx context.Context) bool { return errors.Is(context.Cause(ctx), gateway.ErrRevoked) }
