package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// errRevoked says that what the token was given out for has ended.
var errRevoked = errors.New("what the token was given out for has ended")

// check returns nil if the issuer's token that p was made from would be accepted now.
func (i *issuer) check(p *Principal, now time.Time) error {
	if !now.Before(p.Expiry.Add(leeway)) {
		return &Error{Reason: "expired"}
	}
	if !slices.Contains(i.algorithms, p.proof.algorithm) {
		return &Error{Reason: "algorithm"}
	}
	awaited := i.keys.isAwaited() // before the keys are looked at, which may come at any moment
	set := i.keys.current(now)
	if set == nil && !awaited {
		return &Error{Reason: "unavailable"}
	}
	if set != nil && !set.holds(p.proof.key, p.proof.keyID, p.proof.algorithm) {
		return refuse("key", "the key is not the issuer's any more")
	}
	if !i.isFor(p.proof.audiences) {
		return &Error{Reason: "audience"}
	}
	if !i.isTenant(p) {
		return &Error{Reason: "tenant"}
	}
	if !i.speaksFor(p.Issuer) {
		return &Error{Reason: "issuer"}
	}
	if p.proof.isRevoked() {
		return p.ended()
	}
	if p.proof.mapping != i.mapping && !p.proof.mapping.isSame(i.mapping) {
		return refuse("claims", "claims are read otherwise now")
	}
	return nil
}

// ended refuses a token because what it was given out for has ended. To its caller, whom
// the signature makes certain, it is a token whose time is over: then clients try to get
// a new one, and learn what to do.
func (p *Principal) ended() error {
	return &Error{Reason: "expired", Err: errRevoked, Issuer: p.proof.issuer, Name: p.Name}
}

// proof returns by what the verified token p of the issuer was accepted; tenants are the
// values that named its tenants.
func (i *issuer) proof(p *parsed, signer verifying, tenants []string) *proof {
	family := ""
	if i.own != nil {
		family, _ = strictjson.Text(p.claims.member(FamilyClaim)) // a token without one cannot be revoked
	}
	carried := i.carried(&p.claims, family)
	return &proof{
		issuer:    i.name,
		family:    family,
		own:       i.own,
		key:       signer.fingerprint,
		keyID:     p.keyID,
		algorithm: p.algorithm,
		audiences: p.claims.audience,
		mapping:   i.mapping,
		tenants:   tenants,
		carried:   carried,

		carriedDigest: claimsDigest(carried),
	}
}

// claimsDigest returns a digest that no other claims have, zero for none.
func claimsDigest(claims []Claim) [sha256.Size]byte {
	if len(claims) == 0 {
		return [sha256.Size]byte{}
	}
	var buffer [1024]byte
	text := buffer[:0]
	for i := range claims {
		text = append(strictjson.AppendQuote(text, claims[i].Name), ':')
		text = append(append(text, claims[i].Value...), ',')
	}
	return sha256.Sum256(text)
}

// isTenant tells whether the token that p was made from is still for p's tenant, or for
// one of its tenants if none was chosen.
func (i *issuer) isTenant(p *Principal) bool {
	if i.mapping.tenant != "" {
		return i.mapping.tenant == p.TenantID
	}
	if i.mapping.tenantAt.text != p.proof.mapping.tenantAt.text {
		return false // what stands there was not kept
	}
	for _, value := range p.proof.tenants {
		tenant, is := i.mapping.tenants[value]
		if is && (tenant == p.TenantID || p.TenantID == "" && slices.Contains(p.Tenants, tenant)) {
			return true
		}
	}
	return false
}

// carried returns what goes on of the claims of a token. Of one that this gateway has
// given to a person these are the claims that are sealed in it: its own are the gateway's
// words.
func (i *issuer) carried(c *claims, family string) []Claim {
	if family == "" {
		return carriedClaims(c.all, i.keepClaims)
	}
	sealed, is := strictjson.Text(c.member(SealedClaim))
	if !is {
		return nil
	}
	return Keep(i.own.OpenSealed(sealed), i.keepClaims)
}

// vouched returns how the token is had that goes on in place of one that this gateway has
// given out for a family, nil if none does.
func (i *issuer) vouched(family string) *carriedToken {
	if i.own == nil || !i.keepToken || family == "" {
		return nil
	}
	return &carriedToken{digestOf("family\x00" + family), func(ctx context.Context) (string, error) {
		return i.own.TokenOf(ctx, family)
	}}
}

// Keep returns those of the claims with these names that would go on with a principal
// whose token had them. claims is a JSON object; of anything else there are none.
func Keep(claims []byte, names []string) []Claim {
	all, err := Members(claims)
	if err != nil {
		return nil
	}
	return carriedClaims(all, names)
}

// carriedClaims returns the claims with those names. One that is longer than MaxCarried
// is left out, as if the token did not have it.
func carriedClaims(all []strictjson.Member, names []string) (carried []Claim) {
	for _, m := range all {
		if len(m.Value) <= MaxCarried && slices.Contains(names, m.Name) {
			carried = append(carried, Claim{m.Name, slices.Clone(m.Value)})
		}
	}
	return carried
}
