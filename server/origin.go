package server

import (
	"log/slog"
	"maps"
	"net/http"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/server/exchange"
)

// What an operator reads in the log about a host or an origin that was refused. The
// client is not told it.
const (
	hostAdvice   = "add the host to allowed_hosts if it is a name of this gateway"
	originAdvice = "add the origin to allowed_origins if its pages may call this gateway"
)

// sameOrigin refuses requests that a browser was tricked into sending: those under a host
// name that is not the gateway's (DNS rebinding), and those from pages of a foreign
// origin. Each of the two is checked by itself, on every path. It also answers the
// preflight requests of allowed origins, which carry no token.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#security-warning
func (s *Server) sameOrigin(x *exchange.Exchange, r *http.Request) bool {
	if !x.Settings.AllowsHost(r.Host) {
		return s.refuseOrigin(x, slog.String("host", exchange.Harmless(r.Host)), hostAdvice, exchange.ErrHost)
	}
	if (signingIn{s.config.SignIn}).serves(r.URL.Path) { // it judges origins itself: its pages have none
		return true
	}
	if s.isPublic(r.URL.Path, &x.Settings) {
		shareWithAll(x)
		if r.Method == http.MethodOptions {
			x.WriteStatus(http.StatusNoContent)
		}
		return r.Method != http.MethodOptions
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	if len(origins) > 1 || !x.Settings.AllowsOrigin(origins[0], r.Host) {
		named := slog.String("origin", exchange.Harmless(strings.Join(origins, ", ")))
		return s.refuseOrigin(x, named, originAdvice, exchange.ErrOrigin)
	}
	shareWith(x, origins[0])
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		preflight(x)
		return false
	}
	return true
}

// refuseOrigin refuses a request for the host or the origin that it named, which the log
// says together with what would let it in. It returns false.
func (s *Server) refuseOrigin(x *exchange.Exchange, named slog.Attr, advice string,
	refusal *exchange.Refusal,
) bool {
	x.RefusedOrigin = []slog.Attr{named, slog.String("advice", advice)}
	s.exchanges.RecordUnadmitted(x, "forbidden", named.Key)
	x.Refuse("", refusal)
	return false
}

// shareWith tells the browser that pages of the origin may read the answer.
func shareWith(x *exchange.Exchange, origin string) {
	maps.Copy(x.Header(), http.Header{
		"Access-Control-Allow-Origin": {origin},
		"Vary":                        {"Origin"},
		"Access-Control-Expose-Headers": {
			"Mcp-Session-Id, WWW-Authenticate, Retry-After, " + exchange.RequestIDHeader,
		},
	})
}

// preflight answers the question of a browser whether it may send a request.
func preflight(x *exchange.Exchange) {
	maps.Copy(x.Header(), http.Header{
		"Access-Control-Allow-Methods": {"GET, POST, DELETE"},
		"Access-Control-Allow-Headers": {"*, Authorization"},
		"Access-Control-Max-Age":       {"600"},
	})
	x.WriteStatus(http.StatusNoContent)
}
