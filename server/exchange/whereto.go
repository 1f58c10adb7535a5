package exchange

import (
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/gateway"
)

// IssuersOf returns the authorization servers that the metadata of a tenant names, or for
// "" that of the common endpoint.
func (s *Settings) IssuersOf(tenant string) []string {
	if tenant == "" && s.Advertise != nil {
		return s.Advertise
	}
	var direct []string
	for _, server := range s.AuthorizationServers {
		if server.Serves(tenant) {
			direct = append(direct, server.Issuer)
		}
	}
	switch {
	case s.SignIn && tenant == "":
		return []string{s.Base()}
	case s.SignIn && len(direct) == 0:
		return []string{s.Base() + TenantPath + tenant}
	case !s.SignIn && tenant != "" && !s.knows(tenant):
		return s.IssuersOf("")
	}
	return direct
}

// ScopesOf returns the scopes that clients of a tenant are told of.
func (s *Settings) ScopesOf(tenant string) []string {
	if s.SignIn || !s.knows(tenant) { // behind our own sign-in no document says more than another
		tenant = ""
	}
	return s.Scopes[tenant]
}

// knows tells whether there is a tenant of that name.
func (s *Settings) knows(tenant string) bool {
	_, known := s.Scopes[tenant]
	return known
}

// maxScopes is how long the list of scopes may be in a header, in bytes. A client that
// reads none there finds them in the metadata.
const maxScopes = 1024

// ScopeParam returns the parameter of a challenge that says what to ask for at a sign-in,
// nothing if there is no metadata or no scope is known.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization
func (x *Exchange) ScopeParam() []string {
	tenant := ""
	if gateway.IsTenantID(x.Tenant) {
		tenant = x.Tenant
	}
	scopes := strings.Join(x.Settings.ScopesOf(tenant), " ")
	if scopes == "" || len(scopes) > maxScopes || !isQuotable(scopes) || x.metadataURL() == "" {
		return nil
	}
	return []string{`scope="` + scopes + `"`}
}

// isQuotable tells whether a text may stand between quotation marks in a header.
func isQuotable(text string) bool {
	return !strings.ContainsFunc(text,
		func(c rune) bool { return c < ' ' || c > '~' || c == '"' || c == '\\' })
}
