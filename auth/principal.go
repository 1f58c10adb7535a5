package auth

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// Principal is who a verified token speaks for. The zero Principal is nobody.
type Principal struct {
	Issuer   string
	Subject  string // unique only together with Issuer
	ClientID string // azp or client_id; may be empty
	TenantID string // from the issuer's configuration, or from a claim whose value the configuration allows
	// if the token is for several, all of them, and TenantID is empty until At chooses;
	// shared: do not modify
	Tenants []string
	Name    string // for people's eyes, never for decisions; may be empty, or the same as another's
	TokenID string // jti, the first maxTokenID bytes; may be empty
	// claims that Issuer.Recorded names, each with what it says; never for decisions;
	// shared: do not modify
	Recorded [][2]string
	Scopes   []string // shared: do not modify
	// scopes that the person could have if a client asked for them, by the word of this
	// gateway; shared: do not modify
	Spare  []string
	Expiry time.Time

	accessKey string        // the id of the access key that spoke, not the key; "": a token did
	proof     *proof        // by what the token was accepted, for Verifier.Recheck; nil: of no Verifier
	token     *carriedToken // see SubjectToken; nil: it was not kept
}

// At returns the principal as it acts for one of the tenants that its token is for, and
// false if that is none of them.
func (p *Principal) At(tenant string) (Principal, bool) {
	chosen := *p
	if len(p.Tenants) == 0 {
		return chosen, p.TenantID == tenant
	}
	chosen.TenantID, chosen.Tenants = tenant, nil
	return chosen, slices.Contains(p.Tenants, tenant)
}

// WithAccessKey returns the principal as an access key with that id speaks for it. Only
// whoever has verified the key calls it.
func (p *Principal) WithAccessKey(id string) Principal {
	keyed := *p
	keyed.accessKey, keyed.proof, keyed.token = id, nil, nil
	return keyed
}

// AccessKey returns the id of the access key that spoke, "" if a token did.
func (p *Principal) AccessKey() string { return p.accessKey }

// User is the person or program behind a principal, whatever client it uses. Limits are
// per user: the client id is the client's own choice, so somebody who is counted by it
// could begin anew by choosing another one. User is comparable.
type User struct{ TenantID, Issuer, Subject string }

// Owner is a user together with the client that it uses. Whatever is kept for a caller
// between two requests belongs to one owner: a session, a call that waits for an answer,
// a task. Another client of the same user cannot reach it. Owner is comparable.
type Owner struct {
	User

	ClientID string // may be empty
}

// User returns the user behind p.
func (p *Principal) User() User { return User{p.TenantID, p.Issuer, p.Subject} }

// Owner returns the owner of what is kept for p.
func (p *Principal) Owner() Owner { return Owner{p.User(), p.ClientID} }

// Key returns a text that no other user has. Names of tenants and issuers come from the
// config and hold no NUL. A subject may, but it comes last, so it cannot pass for one of
// them.
func (u User) Key() string { return u.TenantID + "\x00" + u.Issuer + "\x00" + u.Subject }

// Digest returns a digest that no other owner has, of the same size however long the
// names are. It stands in sealed texts that clients bring back later, perhaps to a newer
// version of the gateway, so it must stay the same in all versions.
func (o Owner) Digest() [sha256.Size]byte {
	var buffer [256]byte
	text := buffer[:0]
	for _, part := range [...]string{o.TenantID, o.Issuer, o.Subject, o.ClientID} {
		// without lengths, two owners could give one text
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	return sha256.Sum256(text)
}

// Claims returns what Issuer.KeepClaims asked for and the token had, in the order of the
// token. Shared: do not modify.
func (p *Principal) Claims() []Claim {
	if p.proof == nil {
		return nil
	}
	return p.proof.carried
}

// ClaimsDigest returns a digest that no other Claims have. It is zero where there are
// none.
func (p *Principal) ClaimsDigest() [sha256.Size]byte {
	if p.proof == nil {
		return [sha256.Size]byte{}
	}
	return p.proof.carriedDigest
}

// SubjectToken returns the token that the principal was made from, if Issuer.KeepToken
// asked for it, or what Own.TokenOf gives in its place; otherwise the error is
// ErrSubjectGone. It is for one caller: the exchange of it for a token of a server
// (registry/credential), which shows it to the configured endpoint alone. Nobody else may
// ask, and a test of package archtest holds that.
func (p *Principal) SubjectToken(ctx context.Context) (string, error) {
	if p.token == nil {
		return "", ErrSubjectGone
	}
	return p.token.text(ctx)
}

// SubjectDigest returns a digest that no other SubjectToken has, or of one that is had in
// place of a token, that no other sign-in has. It is false where there is none.
func (p *Principal) SubjectDigest() (digest [sha256.Size]byte, has bool) {
	if p.token == nil {
		return digest, false
	}
	return p.token.digest, true
}

// proof is by what a token was accepted. It goes with the Principal, so that Recheck can
// ask later whether all that still holds, when the token itself is not at hand any more.
// It holds no part of the signature and is never changed.
type proof struct {
	issuer    string      // that signed the token; the Principal may have another
	key       fingerprint // of the key that made the signature
	keyID     string      // kid of the token; "" when it has none
	algorithm string
	audiences []string // of the token
	mapping   *mapping // by which the claims were read
	// the values of the claim that named the tenants; none: the issuer has one tenant
	tenants []string
	family  string  // what this gateway gave the token out for; "": it does not say, or is of others
	own     *Own    // nil: the token is of others
	carried []Claim // as Issuer.KeepClaims asks

	carriedDigest [sha256.Size]byte // of carried, see Principal.ClaimsDigest
}

// isRevoked tells whether what the token was given out for has ended.
func (p *proof) isRevoked() bool { return p.family != "" && p.own.Revoked(p.family) }
