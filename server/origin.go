package server

import (
	"log/slog"
	"net/http"
	"strings"
)

// What an operator reads in the log about a host or an origin that was refused. A stranger is not told it.
const (
	hostAdvice   = "add the host to allowed_hosts if it is a name of this gateway"
	originAdvice = "add the origin to allowed_origins if its pages may call this gateway"
)

// sameOrigin refuses requests that a browser was tricked into sending: those under a host name that is not the
// gateway's (DNS rebinding), and those from pages of a foreign origin. Each of the two is checked by itself, on every
// path. It also answers the preflight requests of allowed origins, which carry no token.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#security-warning
func (s *Server) sameOrigin(x *exchange, r *http.Request) bool {
	if !x.settings.allowsHost(r.Host) {
		x.foreign = []slog.Attr{slog.String("host", harmless(r.Host)), slog.String("advice", hostAdvice)}
		x.recordStranger("forbidden", "host")
		x.refuse("", errHost)
		return false
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	if len(origins) > 1 || !x.settings.allowsOrigin(origins[0], r.Host) {
		x.foreign = []slog.Attr{slog.String("origin", harmless(strings.Join(origins, ", "))), slog.String("advice", originAdvice)}
		x.recordStranger("forbidden", "origin")
		x.refuse("", errOrigin)
		return false
	}
	x.shareWith(origins[0])
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		x.preflight()
		return false
	}
	return true
}

// shareWith tells the browser that pages of the origin may read the answer.
func (x *exchange) shareWith(origin string) {
	h := x.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate, Retry-After, "+requestIDHeader)
}

// preflight answers the question of a browser whether it may send a request.
func (x *exchange) preflight() {
	h := x.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", "*, Authorization")
	h.Set("Access-Control-Max-Age", "600")
	x.writeStatus(http.StatusNoContent)
}

// allowsHost tells whether host is one of the names of the gateway.
func (s *Settings) allowsHost(host string) bool {
	name, _ := splitHost(host)
	for _, allowed := range s.AllowedHosts {
		if strings.EqualFold(allowed, host) {
			return true
		}
		bare, port := splitHost(allowed)
		if port == "" && name != "" && strings.EqualFold(bare, name) {
			return true
		}
	}
	return false
}

// allowsOrigin tells whether origin is on the list or is the gateway's own origin. That is the one of the public URL,
// or the one of the request, whose host was checked before.
func (s *Settings) allowsOrigin(origin, host string) bool {
	for _, allowed := range s.AllowedOrigins {
		if strings.EqualFold(strings.TrimSuffix(allowed, "/"), origin) {
			return true
		}
	}
	scheme, rest, found := strings.Cut(origin, "://")
	if !found || scheme != "https" && scheme != "http" {
		return false
	}
	return strings.EqualFold(rest, host) || strings.EqualFold(origin, originOf(s.PublicURL))
}

// originOf returns scheme and host of a URL.
func originOf(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}

// splitHost splits host, host:port, an IPv6 address or [IPv6]:port into name and port. port is "" if there is none.
func splitHost(host string) (name, port string) {
	if inner, found := strings.CutPrefix(host, "["); found {
		name, rest, closed := strings.Cut(inner, "]")
		if !closed || rest != "" && rest[0] != ':' {
			return "", ""
		}
		return name, strings.TrimPrefix(rest, ":")
	}
	if strings.Count(host, ":") != 1 {
		return host, ""
	}
	name, port, _ = strings.Cut(host, ":")
	return name, port
}
