// Package provider asks identity providers who somebody is: any that speaks OpenID
// Connect, and GitHub, which speaks only OAuth. It deliberately does not know what
// becomes of the answer: which tenant somebody has, which scopes, and which tokens.
//
//	openid        the way through an OpenID Connect provider: OIDC
//	try           is all there that a sign-in needs?
//	keys          the key set alone, for who verifies access tokens
//	discovery     what its document says, and how long that is believed
//	idtoken       what it signed: ID tokens and logout tokens
//	github        the same way through GitHub
//	base          what both have: the client there, and what becomes of an answer
//	refreshstate  what must be remembered between two refreshes of one person
//	transport     every request: bounds, retries, proof of who we are
//	failure       what is told of a refusal
//
// A file uses only what stands below it. It is the only package that imports go-oidc and
// x/oauth2. Both read whole answers into their errors; transport and failure see to it
// that nothing of that reaches a log.
package provider

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// Config of a provider. Every field is required.
type Config struct {
	Name     string // as signin.Provider says it
	Issuer   string // as its tokens and its document write it, byte for byte; GitHub has a fixed one
	ClientID string // that the provider has given us

	// Exactly one of the two proves that we are that client.
	ClientSecret string
	ClientKey    *auth.Key // with its private part, for private_key_jwt; not for GitHub

	Scopes []string // that are asked for

	// Client makes all requests, by dial.Client. The provider takes it over, and puts its
	// own bounds in front of its transport.
	Client *http.Client
	// Plain allows http in the addresses of the provider, for one in the own network.
	Plain bool

	Logger *slog.Logger // is told what the provider leaves out
	Now    func() time.Time
}

// google is the issuer of Google, which gives refresh tokens in a way of its own.
const google = "https://accounts.google.com"

// DefaultScopes returns what is asked for where a config names no scopes. offline_access
// brings a refresh token, by which groups are looked up again. Google refuses it, and
// takes parameters in its place.
// https://openid.net/specs/openid-connect-core-1_0.html#OfflineAccess
func DefaultScopes(issuer string) []string {
	switch issuer {
	case google:
		return []string{"openid", "email"}
	case GitHubIssuer:
		return []string{"read:user", "read:org"}
	}
	return []string{"openid", "email", "offline_access"}
}

// DocumentURL returns where the document of an issuer is.
// https://openid.net/specs/openid-connect-discovery-1_0.html#ProviderConfig
func DocumentURL(issuer string) string {
	return strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
}
