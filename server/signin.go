package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/internal/audit"
	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// SignIn is an authorization server for clients, at addresses of this server. It needs no
// token of them, and says itself which origins may come.
type SignIn interface {
	http.Handler
	// Serves tells whether a path is one of its own.
	Serves(path string) bool
}

// signInRoutes are the routes of a SignIn.
func signInRoutes() []string {
	routes := []string{"/consent", "/callback/{provider}", "/logout/{provider}"}
	for _, document := range [...]string{
		"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration",
	} {
		routes = append(routes, document, document+exchange.TenantPath+"{tenant}",
			exchange.TenantPath+"{tenant}"+document)
	}
	for _, path := range [...]string{"/authorize", "/token", exchange.RegisterPath, "/revoke", "/jwks"} {
		routes = append(routes, path, exchange.TenantPath+"{tenant}"+path)
	}
	return routes
}

// SignInMethods is how the methods begin that log and audit name for requests to the
// authorization server.
const SignInMethods = exchange.SignInMethods

// signInMethod returns how log and audit call a request to the authorization server, ""
// for its documents.
func signInMethod(path string) string {
	path = strings.TrimPrefix(path, "/")
	if rest, is := strings.CutPrefix(path, exchange.TenantPath[1:]); is {
		_, path, _ = strings.Cut(rest, "/")
	}
	endpoint, _, _ := strings.Cut(path, "/")
	switch endpoint {
	case "authorize", "callback", "consent", "logout", "register", "revoke", "token":
		return SignInMethods + endpoint
	}
	return ""
}

// RecordSignIn puts on record what the authorization server did, for the request in ctx
// if it has one. It tells whether the log is to have a line, too.
func (s *Server) RecordSignIn(ctx context.Context, r audit.Record) bool {
	return s.exchanges.RecordSignIn(ctx, r)
}

// signingIn has an authorization server answer.
type signingIn struct{ SignIn }

// serves tells whether the path is one of the authorization server, if there is one.
func (s signingIn) serves(path string) bool { return s.SignIn != nil && s.Serves(path) }

// answer answers a request.
func (s signingIn) answer(w http.ResponseWriter, r *http.Request) {
	x := exchange.Of(w)
	if !s.serves(r.URL.Path) || r.URL.RawPath != "" {
		x.Refuse("", exchange.ErrNotFound)
		return
	}
	x.Method = signInMethod(r.URL.Path)
	s.ServeHTTP(w, r.WithContext(x.Context()))
	if x.Status >= http.StatusBadRequest {
		x.Conclude(signin.OutcomeOf(x.Status))
	}
}
