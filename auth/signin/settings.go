package signin

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/auth/signin/clients"
)

// Settings are what a reload may change. The slices are shared: do not modify.
type Settings struct {
	// PublicURL is what clients type, without /mcp: a scheme and a host, as in the header
	// Origin.
	PublicURL string
	Logins    []Login
	Clients   []clients.Fixed
	// Registration says which clients may come that the operator has not configured. The
	// empty one lets nobody come.
	Registration clients.Registration
	// Scopes are those that clients may ask for: the same at all addresses, so that they
	// tell nobody which tenants there are. None: none are known, and each is passed on.
	Scopes []string
	// Advertised are the scopes that clients are told to ask for, within MaxScopes. They
	// may be fewer: of others a client hears when it needs them.
	Advertised []string
	// SpentWindow is for how long the spent refresh token of a family is answered with
	// its present one. Zero: DefaultSpentWindow.
	SpentWindow time.Duration
	// KeepTokens keeps the access tokens of providers, to be exchanged for tokens of
	// servers.
	KeepTokens bool
	// KeepClaims are the names of the claims of people that servers are told. They go
	// into access tokens sealed, so that clients cannot read them.
	KeepClaims []string
}

// mayRegister tells whether clients may register themselves.
func (s *Settings) mayRegister() bool {
	return s.Registration == clients.RegistrationOn || s.Registration == clients.RegistrationDynamic
}

// DefaultSpentWindow is how late clients come in practice with a token that they have
// spent. It may be MostSpentWindow at most, in which a family rotates its tokens fewer
// times than it remembers.
const (
	DefaultSpentWindow = time.Hour
	MostSpentWindow    = 12 * time.Hour
)

// spentWindow returns SpentWindow or its default.
func (s *Settings) spentWindow() time.Duration { return cmp.Or(s.SpentWindow, DefaultSpentWindow) }

// Login is a place where people sign in, and what its claims mean.
type Login struct {
	Provider Provider
	Claims   *auth.Reader
	Tenants  []string // that its people may be of
	Title    string   // for people who choose; "": the name of the provider
}

// address is one of the addresses of this server: that of all tenants, or of one.
type address struct {
	settings Settings
	tenant   string // "": of all
}

// issuer returns the identifier of the authorization server at the address. Everything
// that names it is made here, since clients compare it byte for byte.
func (a address) issuer() string {
	if a.tenant == "" {
		return a.settings.PublicURL
	}
	return a.settings.PublicURL + "/t/" + a.tenant
}

// resource returns the address that tokens are for.
func (a address) resource() string { return a.issuer() + "/mcp" }

// isResource tells whether a client means the resource of this address.
func (a address) isResource(text string) bool {
	return strings.TrimSuffix(text, "/") == a.resource() || strings.TrimSuffix(text, "/") == a.issuer()
}

// logins returns where people sign in who come to the address. At that of an unknown
// tenant it is as at the root.
func (a address) logins() []Login {
	own := slices.DeleteFunc(slices.Clone(a.settings.Logins),
		func(l Login) bool { return !slices.Contains(l.Tenants, a.tenant) })
	if len(own) == 0 {
		return a.settings.Logins
	}
	return own
}

// login returns the login with that name at the address, nil if there is none.
func (a address) login(name string) *Login {
	for _, l := range a.logins() {
		if l.Provider.Name() == name {
			return &l
		}
	}
	return nil
}
