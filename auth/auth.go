// Package auth answers one question: whose token is this? It knows issuers, keys and
// claims. It deliberately knows nothing of a tenant's policy: it says who calls, never
// what they may do.
//
//	Verify ──▶ cache: was this very token verified before, and does that still hold?
//	   │ no
//	   ▼
//	parse ─────▶ issuer.find ─▶ parsed.signed ─▶ issuer.accept ─▶ Principal ─▶ Recheck, at any later time:
//	form only    keys: source   signature        claims             proof       does what was found still hold?
//
// To read the package, begin at the top of this table. A file uses only what stands below
// it or on its line:
//
//	beside the Verifier   sign: makes tokens; reader: says what claims mean that somebody else has verified
//	                      publickeys: verifies who signed a token that is none for a Verifier
//	one token             auth: the Verifier, the order of its checks, and Recheck at a later time
//	what is configured    issuer: judges claims by it; check; namedclaim: claims that no token has
//	keys at an address    remote; keytimes: how long they serve; savedset: what outlives the process
//	a token taken apart   verifier: the only file that imports the JWT library
//	who a caller is       principal; carried: what else of a token goes with it; cache: of verified tokens
//	sets of keys as text  jwks
//	what claims mean      mapping, claimpath, claims
//	what is handed in     config
//	sets of keys          keyset
//	keys                  keys, secret: files of them; roca: weak ones
//	what all of them use  errors
package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/pace"
)

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
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	v := &Verifier{
		issuers:  make(map[string][]*issuer, len(cfg.Issuers)),
		logger:   cfg.Logger,
		now:      cfg.Now,
		verified: newCache(cmp.Or(cfg.CacheSize, defaultCacheSize)),
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

// Adopt takes over the key sets that from has fetched from the same places, so that
// whoever calls while the first fetch is under way need not wait, and Recheck knows the
// issuers' keys at once. It is called before Run and before anybody else uses v.
func (v *Verifier) Adopt(from *Verifier) {
	for _, made := range v.remotes {
		for _, old := range from.remotes {
			if old.place == made.place {
				made.adopt(old)
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
		pace.Signal(r.wake) // run makes one fetch of all that is wanted by then
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
	for pace.Wait(ctx, claimsEvery) {
		v.judgeClaims(ctx)
	}
	fetchers.Wait()
	return nil
}

// Verify returns whose token it is. The token may come from anyone. Errors are *Error. If
// the key set of its issuer is being fetched it may wait for that, up to ten seconds and
// no longer than ctx.
func (v *Verifier) Verify(ctx context.Context, token string) (Principal, error) {
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
		return Principal{}, known.principal.ended()
	}
	return known.carrying(token, id), nil
}

// read takes a token apart, and finds the entry that judges it.
func (v *Verifier) read(token string) (*parsed, *issuer, error) {
	p, err := parse(token)
	if err != nil {
		return nil, nil, err
	}
	from := v.entryFor(p.claims.issuer, p.claims.audience)
	if from == nil {
		return nil, nil, &Error{Reason: "issuer", Claimed: address(p.claims.issuer)}
	}
	return p, from, nil
}

// verify verifies a token that is not remembered. The order of its checks is chosen so
// that somebody who has no key learns least: form, issuer, algorithm, key and signature
// come before anything is said about the claims.
func (v *Verifier) verify(ctx context.Context, token string, now time.Time) (*entry, error) {
	p, from, err := v.read(token)
	if err != nil {
		return nil, err
	}
	set, keys, err := from.find(ctx, p, v.now)
	var signer verifying
	if err == nil {
		signer, err = p.signed(keys)
	}
	if err != nil {
		if refused, ok := errors.AsType[*Error](err); ok {
			refused.Claimed = p.claims.issuer
		}
		return nil, err
	}
	principal, values, err := from.accept(&p.claims, now)
	if err != nil {
		return nil, from.attributed(err, &p.claims)
	}
	principal.proof = from.proof(p, signer, values)
	principal.token = from.vouched(principal.proof.family)
	return &entry{
		principal: principal, until: p.claims.expires.Add(leeway), keys: from.keys,
		generation: set.generation, keepToken: from.keepToken && from.own == nil,
	}, nil
}

// Unverified returns whom a token would speak for if its signature were good, for an
// operator who asks why a token is refused and has not the keys of its issuer. Nothing
// may be allowed by it.
func (v *Verifier) Unverified(token string) (Principal, error) {
	p, from, err := v.read(token)
	if err != nil {
		return Principal{}, err
	}
	principal, _, err := from.accept(&p.claims, v.now())
	return principal, from.attributed(err, &p.claims)
}

// Entry returns the place in Config.Issuers of the entry that judges a token, whether or
// not it accepts it; -1: the token cannot be read, or none does. It is for an operator
// who asks why.
func (v *Verifier) Entry(token string) int {
	_, from, err := v.read(token)
	if err != nil {
		return -1
	}
	return from.entry
}

// Recheck returns nil if the token from which Verify made p would be accepted now, by
// this verifier. The verifier may be another than the one that made p: after a reload,
// the one in force judges the principals of those before it.
//
// The token is refused if its issuer is not configured any more, or no longer allows its
// algorithm, its audience or its tenant; if another claim tells the tenant or the scopes
// now; if the very key that made its signature is not among the issuer's keys any more,
// which also holds for a secret that was replaced under the same key id; or if it has
// expired.
//
// Errors are *Error. The reason unavailable says that the issuer's keys are not known:
// they could not be fetched, or the last ones are too old to be used. Until the first
// fetch has ended, which Config.Changed tells, nobody is refused for a key. A p that no
// Verify made is refused.
//
// Recheck does not wait and fetches nothing. It is cheap, and safe for concurrent use.
// Config.Changed tells when it is worth asking again; that a token has expired, which
// p.Expiry says, is told by nobody.
func (v *Verifier) Recheck(p Principal) error {
	if p.proof == nil {
		return &Error{Reason: "missing"}
	}
	from := v.entryFor(p.proof.issuer, p.proof.audiences)
	if from == nil {
		return &Error{Reason: "issuer"}
	}
	return from.check(&p, v.now())
}

// KeySets tells how it fares to fetch the key sets of all issuers that have an address
// for it, in the order of Config.Issuers. It is cheap, and safe for concurrent use.
func (v *Verifier) KeySets() []KeySet {
	all := make([]KeySet, 0, len(v.remotes))
	now := v.now()
	for _, r := range v.remotes {
		all = append(all, r.state(now))
	}
	return all
}

// MissingClaims returns the claims that the configuration names and that no token of the
// last hour in which there were enough had, nor any since, in the order of
// Config.Issuers. It is cheap, and safe for concurrent use. Without Run there are none.
func (v *Verifier) MissingClaims() []MissingClaim {
	var all []MissingClaim
	for _, n := range v.named {
		n.mu.Lock()
		missing := n.missing
		n.mu.Unlock()
		if missing > 0 {
			all = append(all, MissingClaim{n.issuer, n.at.text, missing, n.advice})
		}
	}
	return all
}

// judgeClaims ends an hour of all claims that the configuration names, and logs which of
// them no token had.
func (v *Verifier) judgeClaims(ctx context.Context) {
	for _, n := range v.named {
		if tokens, isNew := n.begin(); isNew {
			v.logger.WarnContext(ctx, "no token of an hour had a claim that the config names",
				slog.String("issuer", n.issuer),
				slog.String("claim", n.at.text), slog.Int("tokens", tokens), slog.String("advice", n.advice))
		}
	}
}
