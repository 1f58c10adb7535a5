package server

import (
	"cmp"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/connlimit"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
	"github.com/drawbridge-mcp/drawbridge/server/forward"
)

// check is a stage that either lets a request pass or answers it. It is false if it
// answered.
type check func(x *exchange.Exchange, r *http.Request) bool

// checked runs checks in order. Each returns before the next handler is called: an idle
// stream keeps all that is on the stack at that point in memory.
func checked(checks ...check) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := exchange.Of(w)
			for _, passes := range checks {
				if !passes(x, r) {
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

// identified begins the exchange, which answers the request and is where later stages
// keep what they find out.
func (s *Server) identified(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(s.exchanges.Begin(w, r), r)
	})
}

// recovered turns a panic into an error for the client and a line in the log.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if problem := recover(); problem != nil {
				s.answerPanic(exchange.Of(w), problem)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) answerPanic(x *exchange.Exchange, problem any) {
	if problem == http.ErrAbortHandler { //nolint:errorlint // net/http compares it like this
		panic(problem)
	}
	s.exchanges.Panicked(x.Context(), problem)
	x.CutShort("")
}

// bounded takes one of the slots for requests in work, and bounds how large the body may
// be.
func (s *Server) bounded(x *exchange.Exchange, r *http.Request) bool {
	x.Reservation.Slot = &s.working
	if x.Forwarded {
		x.Reservation.Slot = &s.ofReplicas
	}
	switch {
	case x.Reservation.Slot.Add(1) > int64(s.config.MaxRequests):
		x.TurnAway(exchange.ErrOverload)
	case x.Forwarded && s.replicasDrained.Load():
		x.TurnAway(forward.ErrElsewhere)
	case s.exchanges.Jobs.Closed():
		x.TurnAway(exchange.ErrDraining)
	case r.ContentLength > s.config.MaxBody:
		x.Refuse("", exchange.TooLarge(s.config.MaxBody))
	default:
		if r.ContentLength < 0 { // net/http ends a body at the length that it declares
			r.Body = http.MaxBytesReader(x.ResponseWriter, r.Body, s.config.MaxBody)
		}
		return true
	}
	return false
}

// authenticated finds out whose token the request carries, before any of its body is
// read. https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
func (s *Server) authenticated(x *exchange.Exchange, r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, exchange.TenantPath) { // to ask the router costs much
		x.Tenant = chi.URLParam(r, "tenant")
	}
	refused := s.login(x, r)
	switch {
	case x.Forwarded: // on a connection of another replica
	case refused == nil:
		connlimit.Known(r.Context())
	default:
		connlimit.Unknown(r.Context())
	}
	if refused == nil {
		return s.chosen(x, r)
	}
	s.recordLogin(x, refused)
	s.refuseLogin(x, refused)
	return false
}

// chosen lets the path say for which tenant a request is whose token is for several. It
// cannot lead to any other.
func (s *Server) chosen(x *exchange.Exchange, r *http.Request) bool {
	if len(x.Principal.Tenants) == 0 {
		return true
	}
	if !strings.HasPrefix(r.URL.Path, exchange.TenantPath) {
		x.RefuseAdmission(x.SeveralTenants())
		return false
	}
	chosen, is := x.Principal.At(x.Tenant)
	if !is {
		x.Refuse("", exchange.ErrNotFound)
		return false
	}
	x.Principal = chosen
	return true
}

// login finds out whose token the request carries. If the token is refused, login returns
// why.
func (s *Server) login(x *exchange.Exchange, r *http.Request) *auth.Error {
	token, refused := bearer(r)
	if refused != nil {
		return refused
	}
	var err error
	if x.Principal, err = s.config.Verify(x.Context(), token); err == nil {
		return nil
	}
	refused, _ = errors.AsType[*auth.Error](err)
	return cmp.Or(refused, &auth.Error{Reason: "malformed", Err: err})
}

// Details for the log.
var (
	errAuthorizations = errors.New("more than one Authorization header")
	errEmptyToken     = errors.New("nothing stands behind Bearer")
)

// bearer returns the token of a request that has exactly one.
func bearer(r *http.Request) (string, *auth.Error) {
	values := r.Header["Authorization"]
	if len(values) == 0 {
		return "", &auth.Error{Reason: "missing"}
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.Trim(token, " ")
	switch {
	case len(values) > 1:
		return "", &auth.Error{Reason: "malformed", Err: errAuthorizations}
	case !strings.EqualFold(scheme, "Bearer"):
		return "", &auth.Error{Reason: "scheme"}
	case token == "":
		return "", &auth.Error{Reason: "missing", Err: errEmptyToken}
	}
	return token, nil
}

// recordLogin counts a refused token and puts it on record.
func (s *Server) recordLogin(x *exchange.Exchange, refused *auth.Error) {
	address, _ := netip.ParseAddr(x.Remote)
	s.config.Metrics.LoginFailed(refused.Reason, address)
	x.Refused = refused
	s.exchanges.RecordUnadmitted(x, "unauthenticated", refused.Reason)
}

func (s *Server) refuseLogin(x *exchange.Exchange, refused *auth.Error) {
	refusal := exchange.RefusedLogin(refused)
	switch refusal {
	case exchange.ErrKeysUnavailable: // no challenge, because another token would not help
	// https://www.rfc-editor.org/rfc/rfc6750#section-3.1 wants no error then
	case exchange.ErrNoToken, exchange.ErrScheme:
		x.Challenge(x.ScopeParam()...)
	default:
		x.Challenge(append([]string{`error="invalid_token"`, `error_description="` + refusal.Err.Message + `"`},
			x.ScopeParam()...)...)
	}
	x.Refuse("", refusal)
}

// admitted finds the tenant of the caller and takes one request token from it, before the
// body is read; of a request that another replica has forwarded, that one has taken it.
// If the path names a tenant, it must be one of the token: the path chooses among these
// alone.
func (s *Server) admitted(x *exchange.Exchange, r *http.Request) bool {
	price := 1
	if x.Forwarded {
		price = 0
	}
	var err error
	if x.Caller, err = s.desk.Admit(x.Context(), x.Principal, price); err != nil {
		x.RefuseAdmission(err)
		return false
	}
	if strings.HasPrefix(r.URL.Path, exchange.TenantPath) && x.Tenant != x.Caller.Tenant.ID {
		x.Refuse("", exchange.ErrNotFound)
		return false
	}
	return true
}

// keysTaken lets requests to the addresses of access keys pass while keys are taken.
func (s *Server) keysTaken(x *exchange.Exchange, _ *http.Request) bool {
	if !x.Settings.AccessKeys {
		x.Refuse("", exchange.ErrNotFound)
	}
	return x.Settings.AccessKeys
}

func (s *Server) notFound(w http.ResponseWriter, _ *http.Request) {
	exchange.Of(w).Refuse("", exchange.ErrNotFound)
}

// forwarded returns the handler of requests that other replicas forward. What their
// clients may do is judged here as if they had come here, but for what belongs to a
// connection, and for what a request costs: the first replica has seen to that.
func (s *Server) forwarded() http.Handler {
	return s.router(chi.Chain(s.identified, s.exchanges.Logged, s.recovered, checked(s.bounded)))
}
