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
	key         fingerprint // of the key that made the signature
	keyID       string      // kid of the token; "" when it has none
	algorithm   string
	audiences   []string // of the token
	tenantClaim string   // by which claim the tenant was told; "": it is the issuer's only one
	scopeClaim  string   // by which claim the scopes were told
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
	from := v.issuers[p.Issuer]
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
	if !slices.ContainsFunc(p.proof.audiences, func(name string) bool { return slices.Contains(i.audiences, name) }) {
		return &Error{Reason: "audience"}
	}
	if p.proof.tenantClaim != i.tenantClaim || !i.speaksFor(p.TenantID) {
		return &Error{Reason: "tenant"}
	}
	if p.proof.scopeClaim != i.scopeClaim {
		return refuse("claims", "another claim has the scopes now")
	}
	return nil
}

// proof returns by what the verified token p of the issuer was accepted.
func (i *issuer) proof(p *parsed, signer verifying) *proof {
	return &proof{
		key:         signer.fingerprint,
		keyID:       p.keyID,
		algorithm:   p.algorithm,
		audiences:   p.claims.audience,
		tenantClaim: i.tenantClaim,
		scopeClaim:  i.scopeClaim,
	}
}

// speaksFor tells whether the issuer's tokens may be for the tenant.
func (i *issuer) speaksFor(tenant string) bool {
	if i.tenantClaim == "" {
		return tenant == i.tenant
	}
	return slices.Contains(i.tenantsAllowed, tenant)
}
