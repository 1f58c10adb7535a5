package server

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/connlimit"
)

// check is a stage that either lets a request pass or answers it. It is false if it
// answered.
type check func(x *exchange, r *http.Request) bool

// checked runs checks in order. Each returns before the next handler is called: an idle
// stream keeps all that is on the stack at that point in memory.
func checked(checks ...check) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			x := of(w)
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
		next.ServeHTTP(s.exchanges.newExchange(w, r), r)
	})
}

// recovered turns a panic into an error for the client and a line in the log.
func (s *Server) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if problem := recover(); problem != nil {
				s.answerPanic(of(w), problem)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func (s *Server) answerPanic(x *exchange, problem any) {
	if problem == http.ErrAbortHandler { //nolint:errorlint // net/http compares it like this
		panic(problem)
	}
	s.exchanges.panicked(x.context(), problem)
	x.cutShort("")
}

// bounded takes one of the slots for requests in work, and bounds how large the body may
// be and how long it may take.
func (s *Server) bounded(x *exchange, r *http.Request) bool {
	x.held.slot = &s.working
	if x.forwarded {
		x.held.slot = &s.visiting
	}
	switch {
	case x.held.slot.Add(1) > int64(s.config.MaxCalls):
		x.turnAway(errOverload)
	case s.exchanges.jobs.closed():
		x.turnAway(errDraining)
	case r.ContentLength > s.config.MaxBody:
		x.refuse("", s.exchanges.tooLarge())
	default:
		if r.ContentLength != 0 {
			_ = x.control.SetReadDeadline(x.started.Add(s.config.ReadTimeout)) // a recorder has no deadlines
		}
		if r.ContentLength < 0 { // net/http ends a body at the length that it declares
			r.Body = http.MaxBytesReader(x.ResponseWriter, r.Body, s.config.MaxBody)
		}
		return true
	}
	return false
}

// authenticated finds out whose token the request carries, before any of its body is
// read. https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
func (s *Server) authenticated(x *exchange, r *http.Request) bool {
	x.tenant = chi.URLParam(r, "tenant")
	refused := s.login(x, r)
	if refused == nil {
		connlimit.Known(r.Context())
		return s.chosen(x, r)
	}
	connlimit.Unknown(r.Context())
	s.recordLogin(x, refused)
	s.refuseLogin(x, refused)
	return false
}

// chosen lets the path say for which tenant a request is whose token is for several. It
// cannot lead to any other.
func (s *Server) chosen(x *exchange, r *http.Request) bool {
	if len(x.principal.Tenants) == 0 {
		return true
	}
	if !strings.HasPrefix(r.URL.Path, tenantPath) {
		err := x.severalTenants()
		s.exchanges.delayLimited(x, err)
		x.refuseAdmission(err)
		return false
	}
	chosen, is := x.principal.At(x.tenant)
	if !is {
		x.refuse("", errNotFound)
		return false
	}
	x.principal = chosen
	return true
}

// login finds out whose token the request carries. If the token is refused, login returns
// why.
func (s *Server) login(x *exchange, r *http.Request) *auth.Error {
	token, refused := bearer(r)
	if refused != nil {
		return refused
	}
	var err error
	if x.principal, err = s.config.Verify(x.context(), token); err == nil {
		x.token = token
		return nil
	}
	return loginError(err)
}

// loginError returns an error of Verify with its reason.
func loginError(err error) *auth.Error {
	if refused, known := errors.AsType[*auth.Error](err); known {
		return refused
	}
	return &auth.Error{Reason: "malformed", Err: err}
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
func (s *Server) recordLogin(x *exchange, refused *auth.Error) {
	address, _ := netip.ParseAddr(x.remote)
	s.config.Metrics.LoginFailed(refused.Reason, address)
	x.refused = refused
	s.exchanges.recordUnauthenticated(x, "unauthenticated", refused.Reason)
}

func (s *Server) refuseLogin(x *exchange, refused *auth.Error) {
	told := refusedLogin(refused)
	switch told {
	case errKeysUnavailable: // no challenge, because another token would not help
	case errNoToken, errScheme: // https://www.rfc-editor.org/rfc/rfc6750#section-3.1 wants no error then
		x.challenge()
	default:
		x.challenge(`error="invalid_token"`, `error_description="`+told.told.Message+`"`)
	}
	x.refuse("", told)
}

// admitted finds the tenant of the caller and takes one request token from it, before the
// body is read; of a request that another replica has forwarded, that one has taken it.
// If the path names a tenant, it must be one of the token: the path chooses among these
// alone.
func (s *Server) admitted(x *exchange, r *http.Request) bool {
	var err error
	if x.forwarded {
		x.caller, err = s.desk.Resolve(x.principal)
	} else {
		x.caller, err = s.desk.Admit(x.context(), x.principal, 1)
	}
	if err != nil {
		s.exchanges.delayLimited(x, err)
		x.refuseAdmission(err)
		return false
	}
	if strings.HasPrefix(r.URL.Path, tenantPath) && x.tenant != x.caller.Tenant.ID {
		x.refuse("", errNotFound)
		return false
	}
	return true
}

func (s *Server) notFound(w http.ResponseWriter, _ *http.Request) { of(w).refuse("", errNotFound) }
