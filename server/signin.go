package server

import (
	"context"
	"net/http"

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

// SignInMethods is how the methods begin that log and audit name for requests to the
// authorization server.
const SignInMethods = exchange.SignInMethods

// RecordSignIn puts on record what the authorization server did, for the request in ctx
// if it has one. It tells whether the log is to have a line, too.
func (s *Server) RecordSignIn(ctx context.Context, r audit.Record) bool {
	return s.exchanges.RecordSignIn(ctx, r)
}

// signingIn has an authorization server answer.
type signingIn struct{ SignIn }

// serves tells whether the path is one of the authorization server, if there is one.
func (s signingIn) serves(path string) bool { return s.SignIn != nil && s.Serves(path) }

// answering returns what answers the requests to a route of that name.
func (s signingIn) answering(name string) http.HandlerFunc {
	method := SignInMethods + name
	if name == "" { // of a document, which log and audit know by its path
		method = ""
	}
	return func(w http.ResponseWriter, r *http.Request) {
		x := exchange.Of(w)
		if !s.serves(r.URL.Path) || r.URL.RawPath != "" {
			x.Refuse("", exchange.ErrNotFound)
			return
		}
		x.Method = method
		s.ServeHTTP(w, r.WithContext(x.Context()))
		if x.Status >= http.StatusBadRequest {
			x.Conclude(signin.OutcomeOf(x.Status))
		}
	}
}
