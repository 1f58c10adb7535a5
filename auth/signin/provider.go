// Package signin is an OAuth authorization server for MCP clients. It lets a person sign
// in at the company's identity provider, asks for consent, and gives the client tokens of
// its own. It deliberately knows nothing of a tenant's rules.
//
//	client ── authorize ──▶ browser ──▶ provider ──▶ callback ──▶ consent ──▶ client ── token ──▶ tokens
//	            attempt: a cookie of the browser      family: a record in the store, until its end
//
// From the top: signin.go has the server, and routes.go what each path leads to.
// authorize.go, callback.go and consent.go are a person's way, which attempt.go binds to
// one browser. token.go gives out tokens: redeem.go the first of a family, refresh.go all
// others, issue.go the tokens themselves. revoke.go, logouts.go and ended.go end them;
// family.go is what they belong to. metadata.go answers whoever asks what there is, and
// registers clients. exchange.go is one request, ask.go what a client wants, core.go what
// all parts have in common, settings.go what a reload may change and our addresses,
// signing.go the keys, fault.go what clients are told. This file and logout.go say what a
// provider must do, and reach.go knows which of them answer. records.go has the lines of
// the audit.
//
// Of a sign-in that nobody finished nothing is kept: registrations and attempts are
// sealed into what clients and browsers carry. A record is made for a person who has
// signed in.
package signin

import (
	"context"
	"errors"
	"time"
)

// ErrSignInAgain tells that the provider wants the person to sign in again: what was kept
// of the last time is worth nothing any more. Any other error of a Provider is passing,
// but for the two below.
var ErrSignInAgain = errors.New("the provider wants a new sign-in")

// ErrClientRefused tells that the provider refuses this gateway as its client, whoever
// signs in, which only its operator can mend.
var ErrClientRefused = errors.New("the provider refuses the gateway as its client")

// ErrUnanswered tells that a refresh token was sent to the provider, and that its answer
// did not come. The provider may have taken the token, which is then good for nothing or,
// at a second use, taken for a stolen one. So it is not sent again at once.
var ErrUnanswered = errors.New("the provider was asked and has not answered")

// Provider is where people prove who they are. It is safe for concurrent use.
type Provider interface {
	// Name tells providers apart in addresses: lower-case letters, digits and dashes.
	Name() string
	// Issuer names it as the issuers of the config do.
	Issuer() string
	// AuthURL returns the address at the provider where a browser is sent.
	AuthURL(ctx context.Context, a Attempt) (string, error)
	// Exchange redeems the code that the browser brought back. iss is the parameter of
	// that name, "" if there was none.
	// https://www.rfc-editor.org/rfc/rfc9207
	Exchange(ctx context.Context, a Attempt, code, iss string) (Identity, error)
	// Refresh looks the person up again with the refresh token of an Identity. The error
	// is ErrSignInAgain if that is worth nothing any more, ErrUnanswered if it may be,
	// and ErrClientRefused if nobody is looked up. With any other error there may be the
	// RefreshToken of the Identity: the provider gave it before it failed, and it counts
	// from then on.
	Refresh(ctx context.Context, refreshToken string) (Identity, error)
	// Reach returns why the provider cannot be reached, or is of no use, nil if it can.
	Reach(ctx context.Context) error
}

// CallbackPath is where providers send people back to, below the public URL and before
// the name of the provider.
const CallbackPath = "/callback/"

// Attempt is one person's way through a provider.
type Attempt struct {
	State    string // comes back with the browser
	Nonce    string // must be in the ID token
	Verifier string // of PKCE
	Callback string // our address that the provider sends the browser to
}

// Identity is who somebody is, by the provider's word.
type Identity struct {
	// Claims are those of the ID token together with what userinfo adds, as one JSON
	// object; what they mean is decided by the mapping of the issuer's config.
	Claims []byte
	// Subject is the sub claim, by which the provider names the person in logouts. It
	// need not be that of the mapping.
	Subject string
	// RefreshToken is the provider's; "": it gave none. It is kept sealed.
	RefreshToken string
	AccessToken  string    // the provider's, for exchanges of tokens; ""
	Expiry       time.Time // of AccessToken
	SessionID    string    // the sid claim, for back-channel logout; ""
}
