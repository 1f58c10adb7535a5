package auth

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// MaxLifetime is how long a token may live where its Issuer says nothing: from iat, or
// from now when it does not say, to exp.
const MaxLifetime = 24 * time.Hour

// MostLifetime is the longest life that an Issuer may allow.
const MostLifetime = 90 * 24 * time.Hour

// Claims of the tokens that this gateway signs for people whom others know.
const (
	OriginClaim = "origin" // the issuer that knows the subject
	FamilyClaim = "family" // what the token was given out for
	// scopes that another token of the same sign-in could have, as scope has those of
	// this
	SpareClaim = "spare_scope"
	// claims of the person that only the gateway reads: Own.OpenSealed has them
	SealedClaim = "kept"
)

const (
	leeway           = 30 * time.Second // how much the clocks of issuer and gateway may differ
	defaultCacheSize = 10_000           // tokens
)

// Issuer is one source of tokens that is believed. Every field is required unless its
// comment says otherwise.
type Issuer struct {
	Issuer string // the iss claim of its tokens, compared byte for byte; it has no #
	// JWS names that are allowed, such as RS256; of these a key serves only those of its
	// own type
	Algorithms []string
	Audiences  []string // a token must have at least one of them in its aud claim

	// Who the tenant is: either Tenant for every token of this issuer, or the claim that
	// TenantClaim names, which is a text or a list of texts. A value is believed only if
	// it is in TenantsAllowed, or a key of TenantMap, whose values are tenants: an issuer
	// must not be able to speak for tenants of others. Exactly one of these two goes with
	// TenantClaim.
	//
	// Claims are named by paths: with / in front a JSON pointer, with :// in it a name at
	// the top, and otherwise names with dots between them.
	Tenant         string
	TenantClaim    string
	TenantsAllowed []string
	TenantMap      map[string]string

	// The claims that have the scopes, as texts with blanks between them or lists of
	// texts; none means "scope". ScopeMap has the scopes that some values stand for; all
	// others stand for themselves.
	ScopeClaims []string
	ScopeMap    map[string]string

	// What claims must be, by their paths: a text, or a number or truth value as JSON
	// writes it. A list must have it.
	Require map[string]string

	SubjectClaim string // the claim that has the subject; "" means "sub"
	// the claim that has a name for people's eyes, on which nothing is decided; "":
	// nobody has one
	NameClaim string
	// claims, by their paths, that the Principal has for records; a token may lack them
	Recorded []string

	// What goes on with the Principal of a token, for servers that are told who calls:
	// the claims with these names, at the top of the token, and the token itself. Of a
	// token of this gateway these are what Own has in their place.
	KeepClaims []string
	KeepToken  bool

	MaxLifetime time.Duration // how long its tokens may live; zero: the constant MaxLifetime

	// The issuer signs tokens for people whom others know. SpeaksFor has the issuers that
	// a claim OriginClaim may name: the Principal has that one as its Issuer. Nil: the
	// issuer speaks for its own people.
	SpeaksFor []string

	// Exactly one source of keys.
	Own  *Own   // of this gateway
	Keys []Key  // from a file: public keys, or one shared secret
	JWKS []byte // the text of a key set from a file
	// the address of a key set, which is fetched while Run runs, and again when keys
	// change
	JWKSURL string

	// Fetch gets the text of the key set at JWKSURL. Issuers that have a JWKSURL need it
	// where Run runs. Place says where Fetch gets it from: what was had from another
	// place counts for nothing.
	Fetch func(ctx context.Context) ([]byte, error)
	Place string

	// How long a key that the provider at JWKSURL has removed may still verify.
	// KeysRefresh is that bound while the provider answers: the set is fetched at least
	// that often; zero: 5 minutes. KeysStale is the bound while it does not: for that
	// long the last set serves, and then tokens are refused as unavailable; zero: 1 hour,
	// or KeysRefresh if that is longer. CheckKeyTimes has their bounds.
	KeysRefresh, KeysStale time.Duration
}

// Own is this gateway as an issuer. Its functions are safe for concurrent use.
type Own struct {
	// Keys returns the keys that verify its tokens, which may change at any time. It is
	// asked at each use, and must be quick.
	Keys func() *PublicKeys
	// Revoked tells whether what a token was given out for, which its claim FamilyClaim
	// names, has ended. It is asked at each use, and must be quick.
	Revoked func(family string) bool
	// OpenSealed returns the claims, as a JSON object, that a token of a family has
	// sealed in its claim SealedClaim.
	OpenSealed func(sealed string) []byte
	// TokenOf returns the token of whoever vouches for the person of a family. The error
	// is ErrSubjectGone if the person has to sign in for that.
	TokenOf func(ctx context.Context, family string) (string, error)
}

// AllTenants returns the tenants that the issuer's tokens may be for, each once, in no
// order.
func (i *Issuer) AllTenants() []string {
	all := slices.Clone(i.TenantsAllowed)
	if i.Tenant != "" {
		all = append(all, i.Tenant)
	}
	for _, tenant := range i.TenantMap {
		if !slices.Contains(all, tenant) {
			all = append(all, tenant)
		}
	}
	return all
}

// Config is what a Verifier needs.
type Config struct {
	Issuers   []Issuer
	Now       func() time.Time // nil: time.Now
	CacheSize int              // how many verified tokens are remembered; zero: 10,000
	// Logger is told of key sets that could not be fetched, of refused keys in them, and
	// of claims that are named here and that no token had. Nil: nobody is told.
	Logger *slog.Logger
	// Changed is called when an issuer has other keys than before, or none any more,
	// because its set was fetched and is another, could not be fetched for the first
	// time, or has become too old to be used. Then Recheck may judge otherwise. It is
	// called by goroutines that Run begins, perhaps by several at once, and must return
	// soon. Nil: nobody is called.
	Changed func()
	// Store keeps key sets for later starts, and for other replicas that start. Nil: they
	// are kept nowhere.
	Store KeySetStore
}

// KeySetStore keeps the last key set of each Issuer.Place beyond the life of a process,
// so that one that starts while an issuer cannot be reached has keys all the same. It is
// safe for concurrent use.
type KeySetStore interface {
	// Save keeps a text instead of the one before, for as long as life.
	Save(ctx context.Context, place string, text []byte, life time.Duration) error
	// Load returns the text that was saved last, nil if there is none. It is only ever a
	// text of Save: whoever could make another would choose the keys that are believed.
	Load(ctx context.Context, place string) ([]byte, error)
}
