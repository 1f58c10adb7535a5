package main

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin"
	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
	"github.com/drawbridge-mcp/drawbridge/server"
)

// advertised fills in what the metadata of resources says: where clients sign in, and
// which scopes they ask for there.
func advertised(cfg *config.Config, s *server.Settings) {
	s.SignIn = len(cfg.Logins) > 0
	s.AuthorizationServers = directServers(cfg)
	s.Advertise = slices.DeleteFunc(slices.Clone(cfg.Advertise), // nil stays nil
		func(name string) bool { return name != config.SignInKeyword && !isServer(name) })
	for i, name := range s.Advertise {
		if name == config.SignInKeyword {
			s.Advertise[i] = s.PublicURL
		}
	}
	asks := asksForScopes(cfg)
	s.Scopes = scopesToAskFor(cfg, asks)
	s.CouldGrant = func(p *auth.Principal, scope string) bool {
		return asks[p.Issuer] || slices.Contains(p.Spare, scope)
	}
}

// directServers returns the issuers that clients are sent to themselves. With a sign-in
// of the gateway these are only those of tenants whose people cannot come by that.
func directServers(cfg *config.Config) []server.AuthorizationServer {
	var servers []server.AuthorizationServer
	for i := range cfg.Issuers {
		from := &cfg.Issuers[i].Issuer
		one := server.AuthorizationServer{Issuer: from.Issuer, Tenant: from.Tenant}
		signInHere := len(cfg.Logins) > 0 && (from.Tenant == "" || hasLogin(cfg, from.Tenant))
		isNew := !slices.Contains(servers, one) // an issuer may have several entries
		if isNew && !signInHere && isServer(from.Issuer) {
			servers = append(servers, one)
		}
	}
	return servers
}

// hasLogin tells whether people of a tenant sign in here.
func hasLogin(cfg *config.Config, tenant string) bool {
	return slices.ContainsFunc(cfg.Logins,
		func(l config.Login) bool { return slices.Contains(l.AllTenants(), tenant) })
}

// scopesToAskFor returns which scopes the clients of each tenant ask for: those of the
// config or, without any, those of the rules. Where no issuer takes scopes from what was
// asked for there are none: a provider that does not know them refuses the sign-in. asks
// is what asksForScopes returns.
func scopesToAskFor(cfg *config.Config, asks map[string]bool) map[string][]string {
	given := map[string]bool{} // tenants whose tokens get what was asked for
	for i := range cfg.Issuers {
		for _, tenant := range cfg.Issuers[i].AllTenants() {
			given[tenant] = given[tenant] || asks[cfg.Issuers[i].Issuer.Issuer]
		}
	}
	byTenant := make(map[string][]string, len(cfg.Tenants)+1)
	var all []string
	for i := range cfg.Tenants {
		t := &cfg.Tenants[i]
		scopes := cfg.ScopesSupported
		if scopes == nil && (len(cfg.Logins) > 0 || given[t.ID]) {
			scopes = scopesOfRules(t)
			all = append(all, scopes...)
		}
		byTenant[t.ID] = scopes
	}
	if byTenant[""] = cfg.ScopesSupported; cfg.ScopesSupported == nil {
		byTenant[""] = distinct(all)
	}
	// Clients ask for all that they are told of, and more than they may ask for would
	// keep everybody from signing in. Who asks for none gets what the person has.
	if len(cfg.Logins) > 0 && len(strings.Join(byTenant[""], " ")) > signin.MaxScopes {
		byTenant[""] = nil
	}
	return byTenant
}

// knownScopes returns the scopes that clients may ask for at the gateway: those that they
// are told of, and those of all rules, sorted.
func knownScopes(cfg *config.Config) []string {
	scopes := slices.Clone(cfg.ScopesSupported)
	for i := range cfg.Tenants {
		scopes = append(scopes, scopesOfRules(&cfg.Tenants[i])...)
	}
	return distinct(scopes)
}

// scopesOfRules returns the scopes that rules of a tenant allow something for, sorted.
func scopesOfRules(t *gateway.TenantConfig) []string {
	var scopes []string
	for i := range t.Rules {
		if len(t.Rules[i].Allow) > 0 {
			scopes = append(scopes, t.Rules[i].Scopes...)
		}
	}
	return distinct(scopes)
}

// distinct returns each of the texts once, sorted.
func distinct(texts []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(texts)))
}

// asksForScopes has the issuers whose tokens get the scopes that a client asks for, since
// they stand in the claim of OAuth. Others, such as roles, are given by somebody else. Of
// whoever signs in here the token says what another sign-in would bring.
func asksForScopes(cfg *config.Config) map[string]bool {
	asks := make(map[string]bool)
	for i := range cfg.Issuers {
		claims, name := cfg.Issuers[i].ScopeClaims, cfg.Issuers[i].Issuer.Issuer
		signsIn := slices.ContainsFunc(cfg.Logins,
			func(l config.Login) bool { return l.Issuer.Issuer == name })
		asks[name] = !signsIn &&
			(len(claims) == 0 || slices.Contains(claims, "scope") || slices.Contains(claims, "scp"))
	}
	return asks
}

// isServer tells whether an issuer may be an authorization server that clients can be
// sent to: an https address without query and fragment or, for trials, an http one on
// this machine. Any other issuer is just a name, and a client that is sent there would
// fail with an error that nobody understands. It asks nobody, so it does not know whether
// a server answers at the address. https://www.rfc-editor.org/rfc/rfc8414#section-2
func isServer(issuer string) bool {
	u, err := url.Parse(issuer)
	if err != nil || u.Hostname() == "" || u.User != nil || strings.ContainsAny(issuer, "?#") {
		return false
	}
	if port, err := strconv.ParseUint(cmp.Or(u.Port(), "443"), 10, 16); err != nil || port == 0 {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && config.IsLoopback(net.JoinHostPort(u.Hostname(), "0"))
}
