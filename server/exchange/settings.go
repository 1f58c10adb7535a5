package exchange

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// Settings are the parts of the config that a reload may change.
type Settings struct {
	PublicURL string // what clients type, without /mcp
	// AuthorizationServers are the issuers that clients can go to for a token: the
	// metadata names them, and every 401 leads there. Empty: there is no metadata.
	AuthorizationServers []AuthorizationServer
	AllowedOrigins       []string // as browsers write them
	AllowedHosts         []string // values of Host that are accepted; one without a port accepts every port
	TrustedProxies       []netip.Prefix
	PublicTenants        []string // whose endpoints have a card
	// AccessKeys says whether access keys are taken. Then the endpoints are served at
	// addresses without discovery, too: some clients send a header that was configured
	// only there.
	AccessKeys bool

	// SignIn says that this gateway itself is the authorization server, under a name of
	// its own at each endpoint. It is named where no AuthorizationServer has that tenant.
	SignIn bool
	// Advertise has the issuers that the metadata of /mcp names; nil: all, or with SignIn
	// that of the gateway.
	Advertise []string
	// Scopes has the tenants that there are, each with the scopes that its clients are
	// told to ask for; "" is /mcp, and an unknown tenant has the same as that. No scopes:
	// nothing is told. Nil: no tenant is known.
	Scopes map[string][]string
	// CouldGrant tells whether another sign-in could give a caller the scope. Nil: it
	// could.
	CouldGrant func(p *auth.Principal, scope string) bool
}

// AuthorizationServer is an issuer at which clients can get a token by themselves.
type AuthorizationServer struct {
	Issuer string
	Tenant string // for which all of its tokens are; "": a claim of each token says it
}

// remoteOf returns the address of the client. X-Forwarded-For counts only as far as
// trusted proxies wrote it: reading from the end, the first address that is not a trusted
// proxy is the client's.
func (s *Settings) remoteOf(r *http.Request) string {
	peer := r.RemoteAddr
	if i := strings.LastIndexByte(peer, ':'); i >= 0 {
		peer = strings.Trim(peer[:i], "[]")
	}
	if len(s.TrustedProxies) == 0 || !s.trusts(peer) {
		return peer
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		address, ok := addressIn(strings.TrimSpace(hop))
		if !ok || !s.trusts(peer) {
			break
		}
		peer = address.String()
	}
	return peer
}

// addressIn returns the address that a proxy has written, some of them with a port.
func addressIn(hop string) (netip.Addr, bool) {
	if both, err := netip.ParseAddrPort(hop); err == nil {
		return both.Addr(), true
	}
	address, err := netip.ParseAddr(hop)
	return address, err == nil
}

func (s *Settings) trusts(address string) bool {
	parsed, err := netip.ParseAddr(address)
	return err == nil && s.Trusts(parsed)
}

// Trusts tells whether the address is one of TrustedProxies.
func (s *Settings) Trusts(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	return slices.ContainsFunc(s.TrustedProxies, func(p netip.Prefix) bool { return p.Contains(address) })
}

// The paths that are served.
const (
	EndpointPath = "/mcp"
	TenantPath   = "/t/"
	KeyPath      = "/key" // before EndpointPath: an address without discovery
	SSEPath      = "/sse"
	MessagesPath = "/messages"
	MetadataPath = "/.well-known/oauth-protected-resource"
	RegisterPath = "/register"
)

// Serves tells whether tokens of a may be for the tenant. The common endpoint, "", is for
// the tokens of all.
func (a AuthorizationServer) Serves(tenant string) bool {
	return tenant == "" || a.Tenant == "" || a.Tenant == tenant
}

// Base returns the public URL without a slash at its end.
func (s *Settings) Base() string { return strings.TrimSuffix(s.PublicURL, "/") }

// PublicPath returns the path under which clients see the root of this server, "" if that
// is /.
func (s *Settings) PublicPath() string { return strings.TrimPrefix(s.Base(), originOf(s.Base())) }

// AllowsHost tells whether host is one of the names of the gateway. An allowed host
// without a port stands for the host with any port or none, but what follows it must be a
// port: 127.0.0.1:80.evil is another name, which a stranger can own. Any other text than
// a host is refused, whatever is allowed.
func (s *Settings) AllowsHost(host string) bool {
	name, port, ok := splitHost(host)
	return ok && slices.ContainsFunc(s.AllowedHosts, func(allowed string) bool {
		wanted, only, ok := splitHost(allowed)
		return ok && strings.EqualFold(wanted, name) && (only == "" || only == port)
	})
}

// AllowsOrigin tells whether origin is on the list or is the gateway's own origin. That
// is the one of the public URL, or the one of the request, whose host was checked before.
func (s *Settings) AllowsOrigin(origin, host string) bool {
	for _, allowed := range s.AllowedOrigins {
		if strings.EqualFold(allowed, origin) {
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
		name, rest, found = strings.Cut(inner, "]")
		address, err := netip.ParseAddr(name)
		if !found || err != nil || !address.Is6() || address.Zone() != "" {
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
