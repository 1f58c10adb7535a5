package server

import (
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// What an operator reads in the log about a host or an origin that was refused. A
// stranger is not told it.
const (
	hostAdvice   = "add the host to allowed_hosts if it is a name of this gateway"
	originAdvice = "add the origin to allowed_origins if its pages may call this gateway"
)

// sameOrigin refuses requests that a browser was tricked into sending: those under a host
// name that is not the gateway's (DNS rebinding), and those from pages of a foreign
// origin. Each of the two is checked by itself, on every path. It also answers the
// preflight requests of allowed origins, which carry no token.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#security-warning
func (s *Server) sameOrigin(x *exchange, r *http.Request) bool {
	if !x.settings.allowsHost(r.Host) {
		x.foreign = []slog.Attr{slog.String("host", harmless(r.Host)), slog.String("advice", hostAdvice)}
		s.recordStranger(x, "forbidden", "host")
		x.refuse("", errHost)
		return false
	}
	if s.isPublic(r.URL.Path, &x.settings) {
		x.shareWithAll()
		if r.Method == http.MethodOptions {
			x.writeStatus(http.StatusNoContent)
		}
		return r.Method != http.MethodOptions
	}
	origins := r.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	if len(origins) > 1 || !x.settings.allowsOrigin(origins[0], r.Host) {
		x.foreign = []slog.Attr{
			slog.String("origin", harmless(strings.Join(origins, ", "))),
			slog.String("advice", originAdvice),
		}
		s.recordStranger(x, "forbidden", "origin")
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

// allowsHost tells whether host is one of the names of the gateway. An allowed host
// without a port stands for the host with any port or none, but what follows it must be a
// port: 127.0.0.1:80.evil is another name, which a stranger can own. Any other text than
// a host is refused, whatever is allowed.
func (s *Settings) allowsHost(host string) bool {
	name, port, ok := splitHost(host)
	return ok && slices.ContainsFunc(s.AllowedHosts, func(allowed string) bool {
		wanted, only, ok := splitHost(allowed)
		return ok && strings.EqualFold(wanted, name) && (only == "" || only == port)
	})
}

// allowsOrigin tells whether origin is on the list or is the gateway's own origin. That
// is the one of the public URL, or the one of the request, whose host was checked before.
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

// splitHost splits host, host:port, [IPv6] or [IPv6]:port into name and port. port is ""
// if there is none. ok is false for every other text: a port is a number from 1 to 65535,
// and only an IPv6 address has colons in it.
func splitHost(host string) (name, port string, ok bool) {
	name, rest := host, ""
	if inner, found := strings.CutPrefix(host, "["); found {
		if name, rest, found = strings.Cut(inner, "]"); !found {
			return "", "", false
		}
		if address, err := netip.ParseAddr(name); err != nil || !address.Is6() || address.Zone() != "" {
			return "", "", false
		}
	} else if end := strings.IndexByte(host, ':'); end >= 0 {
		name, rest = host[:end], host[end:]
	}
	if rest == "" {
		return name, "", name != ""
	}
	port, found := strings.CutPrefix(rest, ":")
	number, err := strconv.ParseUint(port, 10, 16)
	return name, port, found && name != "" && err == nil && number > 0
}
