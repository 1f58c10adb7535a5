package auth

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"slices"
	"time"
)

// proof is by what a token was accepted. It goes with the Principal, so that Judge can
// ask later whether all that still holds, when the token itself is not at hand any more.
// It holds no part of the signature and is never changed.
type proof struct {
	issuer    string      // that signed the token; the Principal may have another
	key       fingerprint // of the key that made the signature
	keyID     string      // kid of the token; "" when it has none
	algorithm string
	audiences []string                 // of the token
	mapping   *mapping                 // by which the claims were read
	tenants   []string                 // the values of the claim that named the tenants; none: the issuer has one tenant
	family    string                   // what the token was given out for; "": it does not say
	revoked   func(family string) bool // nil: nothing ends before its time
	kept      []Claim                  // as Issuer.KeepClaims asks
}

// errRevoked says that what the token was given out for has ended. To its caller it is a
// token whose time is over: then clients try to get a new one, and learn what to do.
var errRevoked = refuse("expired", "what the token was given out for has ended")

// isRevoked tells whether what the token was given out for has ended.
func (p *proof) isRevoked() bool {
	return p.family != "" && p.revoked != nil && p.revoked(p.family)
}

// fingerprint is a digest that no other key or secret has.
type fingerprint [sha256.Size]byte

// fingerprintOf returns the fingerprint of a key that algorithms has found to be sound.
func fingerprintOf(public crypto.PublicKey) fingerprint {
	if secret, ok := public.([]byte); ok {
		return sha256.Sum256(append([]byte("secret "), secret...))
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		panic("auth: a sound key that cannot be written: " + err.Error())
	}
	return sha256.Sum256(der)
}

// Judge returns nil if the token from which Verify made p would be accepted now, by this
// verifier. The verifier may be another than the one that made p: after a reload, the one
// in force judges the principals of those before it.
//
// The token is refused if its issuer is not configured any more, or no longer allows its
// algorithm, its audience or its tenant; if another claim tells the tenant or the scopes
// now; if the very key that made its signature is not among the issuer's keys any more,
// which also holds for a secret that was replaced under the same key id; or if it has
// expired.
//
// Errors are *Error. The reason unavailable says that the issuer's keys are not known:
// they were never fetched, or the last ones are too old to be used. A p that no Verify
// made is refused.
//
// Judge does not wait and fetches nothing. It is cheap, and safe for concurrent use.
// Config.Changed tells when it is worth asking again; that a token has expired, which
// p.Expiry says, is told by nobody.
func (v *Verifier) Judge(p Principal) error {
	if p.proof == nil {
		return &Error{Reason: "missing"}
	}
	from := v.entryFor(p.proof.issuer, p.proof.audiences)
	if from == nil {
		return &Error{Reason: "issuer"}
	}
	return from.judge(&p, v.now())
}

// judge returns nil if the issuer's token that p was made from would be accepted now.
func (i *issuer) judge(p *Principal, now time.Time) error {
	if !now.Before(p.Expiry.Add(leeway)) {
		return &Error{Reason: "expired"}
	}
	if !slices.Contains(i.algorithms, p.proof.algorithm) {
		return &Error{Reason: "algorithm"}
	}
	set := i.keys.current(now)
	if set == nil {
		return &Error{Reason: "unavailable"}
	}
	if !set.holds(p.proof.key, p.proof.keyID, p.proof.algorithm) {
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
		return errRevoked
	}
	if p.proof.mapping != i.mapping && !p.proof.mapping.isSame(i.mapping) {
		return refuse("claims", "claims are read otherwise now")
	}
	return nil
}

// proof returns by what the verified token p of the issuer was accepted; tenants are the
// values that named its tenants.
func (i *issuer) proof(p *parsed, signer verifying, tenants []string) *proof {
	family, _ := text(p.claims.member(FamilyClaim)) // a token without one cannot be revoked
	return &proof{
		issuer:    i.name,
		family:    family,
		revoked:   i.revoked,
		key:       signer.fingerprint,
		keyID:     p.keyID,
		algorithm: p.algorithm,
		audiences: p.claims.audience,
		mapping:   i.mapping,
		tenants:   tenants,
		kept:      keptClaims(&p.claims, i.keepClaims),
	}
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

// keptClaims returns the claims with those names. One that is longer than MaxKept is left
// out, as if the token did not have it.
func keptClaims(c *claims, names []string) (kept []Claim) {
	for _, m := range c.all {
		if len(m.Value) <= MaxKept && slices.Contains(names, m.Name) {
			kept = append(kept, Claim{m.Name, slices.Clone(m.Value)})
		}
	}
	return kept
}
