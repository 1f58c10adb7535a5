// Package auth answers one question: whose token is this? It knows issuers, keys and claims, and nothing of tenants'
// policy: it says who, never what they may do.
package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// MaxLifetime is how long a token may live: from iat, or from now when it does not say, to exp.
const MaxLifetime = 24 * time.Hour

const (
	leeway           = 30 * time.Second // that clocks may differ
	defaultCacheSize = 10_000
)

// Issuer is one source of tokens that is believed.
type Issuer struct {
	Issuer         string   // exact iss
	Algorithms     []string // JWS names allowed; a key only serves algorithms of its own type
	Audiences      []string // at least one must be in aud
	Tenant         string   // tenant of every token of this issuer; or TenantClaim with TenantsAllowed
	TenantClaim    string
	TenantsAllowed []string
	ScopeClaim     string // "" means "scope"

	// Exactly one source of keys.
	Keys    []Key  // from a file: public keys, or one shared secret
	JWKS    []byte // a key set from a file
	JWKSURL string // a key set fetched with Config.Client while Run runs, and again when keys rotate
}

// Config is what a Verifier needs.
type Config struct {
	Issuers   []Issuer
	Client    *http.Client     // fetches key sets; required when an issuer has a JWKSURL. Its redirects are not followed
	Now       func() time.Time // zero: time.Now
	CacheSize int              // verified tokens remembered; zero: 10,000
	Logger    *slog.Logger     // key sets that could not be fetched; nil: nowhere
}

// Error says why a token was refused. Reason is one word of ours, for logs and metrics; its text is for operators, not
// for the caller. Neither it nor its cause holds any part of the token, and of its fields those do that say so.
type Error struct {
	Reason string // missing, scheme, malformed, algorithm, key, signature, issuer, audience, expired, early, lifetime, tenant, claims, unavailable
	Err    error  // may be nil

	// Issuer is whose key signed the token, as it is configured. It is empty while no signature was verified: then
	// nothing in the token is known to be true, and a caller that is told more than that learns by trying.
	Issuer string
	// Claimed is whose the token says it is, where Issuer is empty and the token has a form. An issuer that is not known is
	// named only when it has the form of an address: any other text may be something that was not meant to be shown, a
	// secret in the wrong place for instance. Anybody may have written it: it is of any length, has any characters, and
	// serves to find out what was sent, nothing else.
	Claimed string
	// Audience is what a token with Reason audience says that it is for, and Expected what its issuer is configured with.
	// Audience is the issuer's choice: of any length, and with any characters. Both are shared: do not modify.
	Audience, Expected []string
}

func (e *Error) Error() string { return "token refused: " + e.Reason }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// claiming returns err with whose the token says it is.
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
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
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
	issuers  map[string]*issuer // by exact iss; never changed
	remotes  []*remote
	now      func() time.Time
	verified *cache
}

// New returns a verifier of the tokens of the given issuers. It fetches nothing; errors name the issuer and the fault.
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
	v := &Verifier{
		issuers:  make(map[string]*issuer, len(cfg.Issuers)),
		now:      cfg.Now,
		verified: newCache(cfg.CacheSize),
	}
	if err := v.add(cfg); err != nil {
		return nil, err
	}
	return v, nil
}

// add adds the issuers of cfg and returns all their faults at once.
func (v *Verifier) add(cfg Config) error {
	var faults []error
	for i := range cfg.Issuers {
		name := cfg.Issuers[i].Issuer
		if v.issuers[name] != nil {
			faults = append(faults, fmt.Errorf("issuer %q: named twice", name))
			continue
		}
		added, err := newIssuer(&cfg.Issuers[i], &cfg)
		if err != nil {
			faults = append(faults, fmt.Errorf("issuer %q: %w", name, err))
			continue
		}
		v.issuers[name] = added
		if fetched, ok := added.keys.(*remote); ok {
			v.remotes = append(v.remotes, fetched)
		}
	}
	return errors.Join(faults...)
}

// Run keeps fetched key sets fresh until ctx ends, and then waits for the fetches under way. It is called once; without
// it, no key set is fetched and tokens that need one are refused as unavailable.
func (v *Verifier) Run(ctx context.Context) error {
	var fetchers sync.WaitGroup
	for _, r := range v.remotes {
		fetchers.Go(func() { r.run(ctx) })
	}
	<-ctx.Done()
	fetchers.Wait()
	return nil
}

// Verify returns whose token it is. Errors are *Error. It waits, no longer than ctx, for a key set that is being fetched.
func (v *Verifier) Verify(ctx context.Context, token string) (Principal, error) {
	if err := fits(token); err != nil {
		return Principal{}, err
	}
	id := digestOf(token)
	now := v.now()
	if known := v.verified.get(id); known != nil && known.holds(now) {
		return known.principal, nil
	}
	fresh, err := v.verify(ctx, token, now)
	if err != nil {
		return Principal{}, err
	}
	v.verified.put(id, fresh)
	return fresh.principal, nil
}

// verify verifies a token that is not remembered. The order of its checks says least to those who hold no key:
// form, issuer, algorithm, key and signature come before anything is said about claims.
func (v *Verifier) verify(ctx context.Context, token string, now time.Time) (*entry, error) {
	p, err := parse(token)
	if err != nil {
		return nil, err
	}
	from := v.issuers[p.claims.issuer]
	if from == nil {
		return nil, &Error{Reason: "issuer", Claimed: address(p.claims.issuer)}
	}
	set, keys, err := from.find(ctx, p, v.now)
	if err == nil {
		err = p.signed(keys)
	}
	if err != nil {
		return nil, claiming(err, p.claims.issuer)
	}
	principal, err := from.accept(&p.claims, now)
	if err != nil {
		return nil, from.attributed(err, &p.claims)
	}
	return &entry{principal: principal, until: p.claims.expires.Add(leeway), keys: from.keys, generation: set.generation}, nil
}
