package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// issuer is a configured Issuer whose faults were checked and whose keys are ready. It
// never changes; its keys and counts may.
type issuer struct {
	name        string
	entry       int // in Config.Issuers
	algorithms  []string
	audiences   []string
	mapping     *mapping
	maxLifetime time.Duration
	keepClaims  []string
	keepToken   bool
	named       []*namedClaim
	rules       rules
	keys        source
	origins     []string // that it speaks for; nil: itself alone
	own         *Own     // nil: it is not this gateway
}

// newIssuer makes the issuer cfg ready for use, or returns what is wrong with it. all is
// the Config that it is part of.
func newIssuer(cfg *Issuer, all *Config) (*issuer, error) {
	mapping, err := newMapping(cfg)
	if err = errors.Join(checkNames(cfg), err); err != nil {
		return nil, err
	}
	keys, err := newSource(cfg, all)
	if err != nil {
		return nil, err
	}
	return &issuer{
		name:        cfg.Issuer,
		algorithms:  slices.Clone(cfg.Algorithms),
		audiences:   slices.Clone(cfg.Audiences),
		mapping:     mapping,
		maxLifetime: cmp.Or(cfg.MaxLifetime, MaxLifetime),
		keepClaims:  slices.Clone(cfg.KeepClaims),
		keepToken:   cfg.KeepToken,
		named:       newNamedClaims(cfg, mapping),
		rules:       newRules(cfg, all),
		keys:        keys,
		origins:     slices.Clone(cfg.SpeaksFor),
		own:         cfg.Own,
	}, nil
}

// share lets two entries of one issuer have one key set, if it is fetched.
func (i *issuer) share(first *issuer) error {
	own, fetched := i.keys.(*remote)
	other, both := first.keys.(*remote)
	switch {
	case fetched != both:
		return errors.New("an issuer has one source of keys in all its entries")
	case !fetched:
		return nil
	case own.url != other.url || own.refresh != other.refresh || own.stale != other.stale:
		return errors.New("the entries of an issuer have one address of keys, and the same times for them")
	}
	i.keys = other
	return nil
}

// checkNames returns all faults of an issuer's name, algorithms and audiences.
func checkNames(cfg *Issuer) error {
	var faults []error
	for _, fault := range []struct {
		is   bool
		text string
	}{
		{cfg.Issuer == "", "an issuer needs a name"},
		// OpenID Connect allows no fragment in it. With one, issuer#subject would be
		// ambiguous:
		// https://openid.net/specs/openid-connect-core-1_0.html#IssuerIdentifier
		{
			strings.Contains(cfg.Issuer, "#"),
			"an issuer must not have # in its name: rules name users as issuer#subject",
		},
		{len(cfg.Algorithms) == 0, "no algorithm is allowed"},
		{
			len(cfg.Audiences) == 0 || slices.Contains(cfg.Audiences, ""),
			"at least one audience is needed, and none may be empty",
		},
		{
			cfg.MaxLifetime < 0 || cfg.MaxLifetime > MostLifetime,
			fmt.Sprintf("tokens may live for %d days at most", MostLifetime/(24*time.Hour)),
		},
	} {
		if fault.is {
			faults = append(faults, errors.New(fault.text))
		}
	}
	for _, name := range cfg.Algorithms {
		if methods[name] == nil {
			faults = append(faults, fmt.Errorf("algorithm %q is not known", name))
		}
	}
	return errors.Join(faults...)
}

// newSource returns the one source of keys that the issuer has.
func newSource(cfg *Issuer, all *Config) (source, error) {
	sources := []bool{cfg.Own != nil, len(cfg.Keys) > 0, len(cfg.JWKS) > 0, cfg.JWKSURL != ""}
	given := slices.DeleteFunc(sources, func(is bool) bool { return !is })
	if len(given) != 1 {
		return nil, errors.New("needs exactly one source of keys: keys, a key set, or the address of one")
	}
	switch {
	case cfg.Own != nil:
		return handed(func() *keySet { return cfg.Own.Keys().set }), nil
	case len(cfg.Keys) > 0:
		return newFixed(cfg.Keys, cfg.Algorithms)
	case len(cfg.JWKS) > 0:
		return newFixedSet(cfg.JWKS, cfg.Algorithms)
	}
	if err := errors.Join(checkAddress(cfg.JWKSURL),
		CheckKeyTimes(cfg.KeysRefresh, cfg.KeysStale)); err != nil {
		return nil, err
	}
	return newRemote(cfg, all), nil
}

// checkAddress returns an error unless the address is one that a key set can be fetched
// from.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return errors.New("the key set's address is no URL")
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return errors.New("the key set's address must be an http or https URL without user and fragment")
	}
	return nil
}

// find returns the keys that may have signed p, and the set that they are from. If the
// set does not know p's key id, the keys may have changed: it is fetched again, if it can
// be and the last time is long enough ago. The reason of the error is unavailable if it
// is not known whether the key exists, because the set could not be fetched.
func (i *issuer) find(ctx context.Context, p *parsed, now func() time.Time) (*keySet, []verifying, error) {
	if !slices.Contains(i.algorithms, p.algorithm) {
		return nil, nil, &Error{Reason: "algorithm"}
	}
	set := i.keys.current(now())
	keys, known := set.find(p.keyID, p.algorithm)
	if !known {
		err := i.keys.fetchAgain(ctx)
		set = i.keys.current(now())
		keys, known = set.find(p.keyID, p.algorithm)
		if !known && (err != nil || set == nil) {
			return nil, nil, &Error{Reason: "unavailable", Err: err}
		}
	}
	if !known {
		return nil, nil, refuse("key", "no key of that name")
	}
	if len(keys) == 0 {
		return nil, nil, refuse("algorithm", "the key does not serve it")
	}
	return set, keys, nil
}

// accept returns whom the claims speak for, if they are complete, timely, meant for us
// and what they must be, and the values that name the tenants. Their signature must have
// been verified.
func (i *issuer) accept(c *claims, now time.Time) (p Principal, tenants []string, err error) {
	if err := cmp.Or(c.complete(), i.rules.check(c), c.timely(now, i.maxLifetime)); err != nil {
		return Principal{}, nil, err
	}
	for _, n := range i.named {
		n.count(c)
	}
	return i.principal(c)
}

// attributed adds to an error of accept what the verified signature makes certain: the
// issuer, the subject with its name and, if the audience is the fault, both audiences.
// Where there is no error it returns none.
func (i *issuer) attributed(err error, c *claims) error {
	if refused, ok := errors.AsType[*Error](err); ok {
		refused.Issuer, refused.Name = i.name, i.mapping.nameOf(c)
		refused.Subject, _ = i.mapping.subjectOf(c) // "" where that is the fault
		if refused.Reason == "audience" {
			refused.Audience, refused.Expected = c.audience, i.audiences
		}
	}
	return err
}

// principal returns whom verified claims speak for, if they are what they must be, and
// the values that name the tenants. The error names the claim that is at fault.
func (i *issuer) principal(c *claims) (p Principal, values []string, err error) {
	tenants, values, noTenant := i.mapping.tenantsOf(c)
	subject, noSubject := i.mapping.subjectOf(c)
	scopes, noScopes := i.mapping.scopesOf(c)
	if err := cmp.Or(i.mapping.check(c), noTenant, noSubject, noScopes); err != nil {
		return Principal{}, nil, err
	}
	origin, spare := i.name, []string(nil)
	if i.origins != nil {
		origin, _ = strictjson.Text(c.member(OriginClaim))
		spare, _ = words(c.member(SpareClaim)) // none if it is not there
	}
	if !i.speaksFor(origin) {
		return Principal{}, nil, unfit("claims", &claimPath{text: OriginClaim}, c.member(OriginClaim),
			i.origins,
			errors.New("an issuer that signs for others names one of those"))
	}
	p = Principal{
		Issuer:   origin,
		Subject:  subject,
		Name:     i.mapping.nameOf(c),
		TokenID:  beginning(c.tokenID, maxTokenID),
		Recorded: i.mapping.recordedOf(c),
		ClientID: c.clientID,
		TenantID: tenants[0],
		Scopes:   scopes,
		Spare:    spare,
		Expiry:   c.expires,
	}
	if len(tenants) > 1 {
		p.TenantID, p.Tenants = "", tenants
	}
	return p, values, nil
}

// speaksFor tells whether principals of the issuer may have that one as theirs.
func (i *issuer) speaksFor(origin string) bool {
	if i.origins == nil {
		return origin == i.name
	}
	return slices.Contains(i.origins, origin)
}

// isFor tells whether one of the audiences is the issuer's here.
func (i *issuer) isFor(audiences []string) bool {
	return slices.ContainsFunc(audiences,
		func(name string) bool { return slices.Contains(i.audiences, name) })
}
