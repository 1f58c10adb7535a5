// Package auth answers one question: whose token is this? It knows issuers, keys and
// claims. It deliberately knows nothing of a tenant's policy: it says who calls, never
// what they may do.
//
//	Verify ──▶ cache: was this very token verified before, and does that still hold?
//	   │ no
//	   ▼
//	parse ─────▶ issuer.find ─▶ parsed.signed ─▶ issuer.accept ─▶ Principal ─▶ Judge, at any later time:
//	form only    keys: source   signature        claims             proof       does what was found still hold?
//
// auth.go has the Verifier and the order of its checks. verifier.go takes a token apart
// and checks its signature, and is the only file that imports the JWT library; claims.go
// reads the claims, issuer.go judges them by what is configured for their issuer, and
// mapping.go makes tenants, scopes and names of them, which claimpath.go finds;
// namedclaim.go tells of claims that no token has. Keys come from a source: keyset.go for
// those that do not change, remote.go for a set that is fetched, and keytimes.go for how
// long it serves, and savedset.go for what outlives the process. keys.go, secret.go and
// jwks.go read keys and refuse weak ones, of which roca.go knows one kind. cache.go
// remembers verified tokens, principal.go says who a caller is, judge.go whether its
// token would still be accepted, carried.go what else of a token goes with a principal, and
// sign.go makes tokens.
package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
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
	// scopes that another token of the same sign-in could have, as scope has those of this
	SpareClaim = "spare_scope"
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

	// What goes on with the Principal of a token, for servers that are told who calls: the
	// claims with these names, at the top of the token, and the token itself.
	KeepClaims []string
	KeepToken  bool
	// TokenOf gives, in place of a token of this gateway, the one of whoever vouches for the
	// person of the family that its claim FamilyClaim names. The error is ErrSubjectGone if
	// the person has to sign in for that. Nil: such a token goes on with nobody.
	TokenOf func(ctx context.Context, family string) (string, error)

	MaxLifetime time.Duration // how long its tokens may live; zero: the constant MaxLifetime

	// The issuer is this gateway, which signs tokens for people whom others know.
	// SpeaksFor has the issuers that a claim OriginClaim may name: the Principal has that
	// one as its Issuer. Nil: the issuer speaks for its own people. Revoked tells whether
	// what a token was given out for, which its claim FamilyClaim names, has ended; it is
	// asked at each use, and must be quick. Nil: nothing ends before its time.
	SpeaksFor []string
	Revoked   func(family string) bool

	// Exactly one source of keys.
	Own     func() (keys []Key, generation uint64) // of this gateway; the generation differs when they do
	Keys    []Key                                  // from a file: public keys, or one shared secret
	JWKS    []byte                                 // the text of a key set from a file
	JWKSURL string                                 // the address of a key set, which is fetched while Run runs, and again when keys change

	// How long a key that the provider at JWKSURL has removed may still verify.
	// KeysRefresh is that bound while the provider answers: the set is fetched at least
	// that often; zero: 5 minutes. KeysStale is the bound while it does not: for that
	// long the last set serves, and then tokens are refused as unavailable; zero: 1 hour,
	// or KeysRefresh if that is longer. CheckKeyTimes has their bounds.
	KeysRefresh, KeysStale time.Duration
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
	Issuers []Issuer
	// Client fetches key sets. It is required if an issuer has a JWKSURL. Redirects are
	// not followed and cookies not kept, whatever it would do itself.
	Client    *http.Client
	Now       func() time.Time // nil: time.Now
	CacheSize int              // how many verified tokens are remembered; zero: 10,000
	// Logger is told of key sets that could not be fetched, of refused keys in them, and
	// of claims that are named here and that no token had. Nil: nobody is told.
	Logger *slog.Logger
	// Changed is called when an issuer has other keys than before, or none any more,
	// because its set was fetched and is another, or has become too old to be used. Then
	// Judge may judge otherwise. It is called by goroutines that Run begins, perhaps by
	// several at once, and must return soon. Nil: nobody is called.
	Changed func()
	// Store keeps key sets for later starts, and for other replicas that start. Nil: they
	// are kept nowhere.
	Store KeySetStore
}

// Error says why a token was refused. Its text is for operators, not for the caller. The
// text and the cause hold no part of the token; of the fields, those hold some whose
// comments say so.
type Error struct {
	// Reason is one word for logs and metrics: missing, scheme, malformed, algorithm,
	// key, signature, issuer, audience, expired, early, lifetime, tenant, claims or
	// unavailable.
	Reason string
	Err    error // the cause; may be nil

	// Issuer is the configured name of the issuer whose key signed the token. It is empty
	// if no signature was verified: then nothing in the token is known to be true. A
	// caller who is told anything about such a token could learn by trying what is
	// configured here.
	Issuer string
	// Claimed is the issuer that the token names, if Issuer is empty and the token could
	// be read. Anybody may have written it: it is of any length, has any characters, and
	// serves to find out what was sent, nothing else. An issuer that is not configured is
	// named only if it has the form of an address. Any other text may be something that
	// was not meant to be shown, such as a secret in the wrong place.
	Claimed string
	// Audience is set only if Reason is audience: what the token says that it is for. It
	// is the issuer's choice, of any length and with any characters. Expected is what is
	// configured for the issuer. Both are shared: do not modify.
	Audience, Expected []string
	// Claim is the path of the claim that was the fault, if the signature was verified
	// and one claim was; Expected has then what it could have been, the first 16 of
	// these, if that can be listed. Found is the JSON text that stands there, up to 256
	// bytes of it, and "" if nothing does. It is the issuer's choice, with any
	// characters.
	Claim, Found string
	// Name is what people call who the token is about, as Principal.Name. It is "" unless
	// the signature was verified.
	Name string
}

func (e *Error) Error() string { return "token refused: " + e.Reason }

// Unwrap returns the cause, nil if there is none.
func (e *Error) Unwrap() error { return e.Err }

// claiming returns a copy of err that says which issuer the token names.
func claiming(err error, issuer string) error {
	refused, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	claimed := *refused // others may share it
	claimed.Claimed = issuer
	return &claimed
}

// address returns an issuer that has the form of an address, and "" for any other text.
// https://openid.net/specs/openid-connect-core-1_0.html#IssuerIdentifier
func address(issuer string) string {
	u, err := url.Parse(issuer)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	return issuer
}

// refuse returns an *Error with a cause of constant text.
func refuse(reason, detail string) error {
	return &Error{Reason: reason, Err: errors.New(detail)}
}

// Verifier verifies tokens. It is safe for concurrent use.
type Verifier struct {
	issuers  map[string][]*issuer // by exact iss; of several entries the audience chooses; never changed
	remotes  []*remote            // those of the issuers' key sources that Run must fetch
	named    []*namedClaim        // those of all issuers
	logger   *slog.Logger
	now      func() time.Time
	verified *cache
}

// New returns a verifier of the tokens of the given issuers. It fetches nothing; errors
// name the issuer and the fault.
func New(cfg Config) (*Verifier, error) {
	if cfg.CacheSize < 0 {
		return nil, errors.New("the cache's size must not be negative")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.CacheSize == 0 {
		cfg.CacheSize = defaultCacheSize
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	v := &Verifier{
		issuers:  make(map[string][]*issuer, len(cfg.Issuers)),
		logger:   cfg.Logger,
		now:      cfg.Now,
		verified: newCache(cfg.CacheSize),
	}
	if err := v.add(cfg); err != nil {
		return nil, err
	}
	return v, nil
}

// add adds the issuers of cfg. It returns the faults of all of them at once, so that an
// operator need not find one after the other.
func (v *Verifier) add(cfg Config) error {
	var faults []error
	for i := range cfg.Issuers {
		name := cfg.Issuers[i].Issuer
		if twice := v.audienceOf(name, cfg.Issuers[i].Audiences); twice != "" {
			faults = append(
				faults, fmt.Errorf("issuer %q: two entries have the audience %q: a token's audience "+
					"must say by which entry it is read", name, twice))
			continue
		}
		added, err := newIssuer(&cfg.Issuers[i], &cfg)
		if err == nil && len(v.issuers[name]) > 0 {
			err = added.share(v.issuers[name][0])
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("issuer %q: %w", name, err))
			continue
		}
		added.entry = i
		v.issuers[name] = append(v.issuers[name], added)
		v.named = append(v.named, added.named...)
		if fetched, ok := added.keys.(*remote); ok && !slices.Contains(v.remotes, fetched) {
			v.remotes = append(v.remotes, fetched)
		}
	}
	return errors.Join(faults...)
}

// audienceOf returns one of the audiences that an entry of the issuer has already, "" if
// none has any of them.
func (v *Verifier) audienceOf(issuer string, audiences []string) string {
	for _, i := range v.issuers[issuer] {
		for _, audience := range audiences {
			if slices.Contains(i.audiences, audience) {
				return audience
			}
		}
	}
	return ""
}

// entryFor returns the entry of an issuer that judges tokens for these audiences, the
// first one if none does, and nil if the issuer is not known.
func (v *Verifier) entryFor(issuer string, audiences []string) *issuer {
	entries := v.issuers[issuer]
	for _, i := range entries {
		if i.isFor(audiences) {
			return i
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return entries[0]
}

// Adopt takes over the key set that from has fetched for the named issuer, so that
// whoever calls while the first fetch is under way need not wait, and Judge knows the
// issuer's keys at once. It is called before Run and before anybody else uses v. The
// caller says thereby that the issuer is the same in both, and that its set may be
// fetched from the same place; if the address is not the same, nothing is taken over.
func (v *Verifier) Adopt(from *Verifier, issuer string) {
	for _, after := range v.issuers[issuer] {
		made, is := after.keys.(*remote)
		for _, before := range from.issuers[issuer] {
			if old, both := before.keys.(*remote); is && both && old.url == made.url {
				made.adopt(old)
				break
			}
		}
	}
}

// HasKeys tells whether any issuer has keys now, so that some token can be verified.
func (v *Verifier) HasKeys() bool {
	now := v.now()
	for _, entries := range v.issuers {
		if slices.ContainsFunc(entries, func(i *issuer) bool { return i.keys.current(now) != nil }) {
			return true
		}
	}
	return false
}

// Refresh has all key sets fetched at once that are fetched at all, however short a time
// ago they were, and returns without waiting for that. It is for the operator alone:
// unlike what callers can cause, it is not bounded. Without Run it does nothing.
func (v *Verifier) Refresh() {
	for _, r := range v.remotes {
		r.wakeUp()
	}
}

// Run keeps key sets fresh that are fetched, and looks every hour which claims no token
// had, until ctx ends. Then it waits for the fetches under way. It is called once.
// Without it no key set is fetched, and tokens that need one are refused as unavailable.
func (v *Verifier) Run(ctx context.Context) error {
	var fetchers sync.WaitGroup
	for _, r := range v.remotes {
		fetchers.Go(func() { r.run(ctx) })
	}
	hours := time.NewTicker(claimsEvery)
	defer hours.Stop()
	for {
		select {
		case <-hours.C:
			v.judgeClaims(ctx)
		case <-ctx.Done():
			fetchers.Wait()
			return nil
		}
	}
}

// Verify returns whose token it is. The token may come from anyone. Errors are *Error. If
// the key set of its issuer is being fetched it may wait for that, up to ten seconds and
// no longer than ctx.
func (v *Verifier) Verify(ctx context.Context, token string) (Principal, error) {
	if err := fits(token); err != nil {
		return Principal{}, err
	}
	id := digestOf(token)
	now := v.now()
	known := v.verified.get(id)
	if known == nil || !known.holds(now) {
		fresh, err := v.verify(ctx, token, now)
		if err != nil {
			return Principal{}, err
		}
		v.verified.put(id, fresh)
		known = fresh
	}
	if known.principal.proof.isRevoked() {
		return Principal{}, errRevoked
	}
	return known.carrying(token), nil
}

// verify verifies a token that is not remembered. The order of its checks is chosen so
// that somebody who has no key learns least: form, issuer, algorithm, key and signature
// come before anything is said about the claims.
func (v *Verifier) verify(ctx context.Context, token string, now time.Time) (*entry, error) {
	p, err := parse(token)
	if err != nil {
		return nil, err
	}
	from := v.entryFor(p.claims.issuer, p.claims.audience)
	if from == nil {
		return nil, &Error{Reason: "issuer", Claimed: address(p.claims.issuer)}
	}
	set, keys, err := from.find(ctx, p, v.now)
	var signer verifying
	if err == nil {
		signer, err = p.signed(keys)
	}
	if err != nil {
		return nil, claiming(err, p.claims.issuer)
	}
	principal, values, err := from.accept(&p.claims, now)
	if err != nil {
		return nil, from.attributed(err, &p.claims)
	}
	principal.proof = from.proof(p, signer, values)
	return &entry{
		principal: principal, until: p.claims.expires.Add(leeway), keys: from.keys,
		generation: set.generation, keepToken: from.keepToken, tokenOf: from.tokenOf,
	}, nil
}

// Unverified returns whom a token would speak for if its signature were good, for an
// operator who asks why a token is refused and has not the keys of its issuer. Nothing
// may be allowed by it.
func (v *Verifier) Unverified(token string) (Principal, error) {
	if err := fits(token); err != nil {
		return Principal{}, err
	}
	p, err := parse(token)
	if err != nil {
		return Principal{}, err
	}
	from := v.entryFor(p.claims.issuer, p.claims.audience)
	if from == nil {
		return Principal{}, &Error{Reason: "issuer", Claimed: p.claims.issuer}
	}
	principal, _, err := from.accept(&p.claims, v.now())
	if err != nil {
		return Principal{}, from.attributed(err, &p.claims)
	}
	return principal, nil
}

// Entry returns the place in Config.Issuers of the entry that judges a token, whether or
// not it accepts it; -1: the token cannot be read, or none does. It is for an operator who
// asks why.
func (v *Verifier) Entry(token string) int {
	if fits(token) != nil {
		return -1
	}
	p, err := parse(token)
	if err != nil {
		return -1
	}
	from := v.entryFor(p.claims.issuer, p.claims.audience)
	if from == nil {
		return -1
	}
	return from.entry
}
