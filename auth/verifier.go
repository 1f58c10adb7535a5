// This file is the only door to github.com/golang-jwt/jwt/v5. What is dangerous about it: it ignores crit (RFC 7515
// section 4.1.11) and b64 (RFC 7797), takes the last of two members of one name, has no bound on size or depth, skips
// line breaks in base64url, and takes any salt length for PS256 and its kin. parse stands in front of it and refuses
// all that; the library verifies signatures and claims.

package auth

import (
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

const (
	maxToken = 8 << 10 // bytes
	maxName  = 255     // bytes of a subject, client id or key id; OpenID Connect Core 1.0 section 2 for sub
)

// parsed is a token of good form of which nothing is verified yet.
type parsed struct {
	algorithm string
	keyID     string // "" when the header has no kid
	claims    claims
	input     string // what was signed
	signature []byte
}

// fits refuses a token whose length alone says that it is none, before anything is done with it.
func fits(token string) error {
	if token == "" {
		return &Error{Reason: "missing"}
	}
	if len(token) > maxToken {
		return refuse("malformed", "longer than 8 KB")
	}
	return nil
}

// parse takes a token that fits apart and refuses every form that two parsers could read differently.
func parse(token string) (*parsed, error) {
	p, payload, err := takeApart(token)
	if err != nil {
		return nil, err
	}
	p.claims, err = readClaims(payload)
	return p, err
}

// takeApart returns a token without its claims, and their text.
func takeApart(token string) (*parsed, []byte, error) {
	if strings.Count(token, ".") != 2 {
		return nil, nil, refuse("malformed", "not three parts")
	}
	if strings.ContainsAny(token, "\r\n") { // the decoder would skip them
		return nil, nil, refuse("malformed", "a line break")
	}
	var decoded [3][]byte
	i := 0
	for part := range strings.SplitSeq(token, ".") {
		data, err := base64.RawURLEncoding.Strict().DecodeString(part)
		if err != nil {
			return nil, nil, refuse("malformed", "not base64url")
		}
		decoded[i] = data
		i++
	}
	p := &parsed{input: token[:strings.LastIndexByte(token, '.')], signature: decoded[2]}
	return p, decoded[1], p.readHeader(decoded[0])
}

// readHeader takes alg and kid from the header. Keys and addresses of keys in it (jwk, jku, x5c, x5u) are ignored: keys
// come from the configuration only.
func (p *parsed) readHeader(data []byte) error {
	members, err := members(data, "alg", "kid", "typ", "cty", "crit", "b64", "zip", "enc")
	if err != nil {
		return err
	}
	for _, m := range members {
		ok := true
		switch m.Name {
		case "alg":
			p.algorithm, ok = text(m.Value)
		case "kid":
			p.keyID, ok = text(m.Value)
			ok = ok && len(p.keyID) <= maxName
		case "typ":
			ok = isAccessToken(m.Value)
		case "crit", "b64", "zip", "enc":
			return refuse("malformed", "the header has "+m.Name)
		}
		if !ok {
			return refuse("malformed", "the header's "+m.Name+" is not fit")
		}
	}
	if p.algorithm == "" {
		return refuse("malformed", "the header has no alg")
	}
	return nil
}

// isAccessToken reports whether typ leaves the token one for us: logout tokens, proofs of possession and the like name
// theirs, see RFC 8725 section 3.11. Issuers that name none, or just JWT, are many.
func isAccessToken(typ []byte) bool {
	name, ok := text(typ)
	name = strings.TrimPrefix(strings.ToLower(name), "application/")
	return ok && (name == "jwt" || name == "at+jwt")
}

// members returns the members of a JSON object. It refuses names that are the same once folded, and those that fold to
// one of the known names without being it.
func members(data []byte, known ...string) ([]strictjson.Member, error) {
	if strictjson.Check(data) != nil { // its text may name members of the token
		return nil, refuse("malformed", "not strict JSON")
	}
	list, err := strictjson.Members(nil, data)
	if err != nil {
		return nil, refuse("malformed", "not a JSON object")
	}
	seen := make(map[string]bool, len(list)+len(known))
	for _, name := range known {
		seen[name] = false
	}
	for _, m := range list {
		folded := strictjson.Fold(m.Name)
		taken, isKnown := seen[folded]
		if taken || isKnown && folded != m.Name {
			return nil, refuse("malformed", "two names that fold to one")
		}
		seen[folded] = true
	}
	return list, nil
}

// signed returns nil when one of keys made the signature.
func (p *parsed) signed(keys []crypto.PublicKey) error {
	m := method(p.algorithm)
	if m == nil || len(p.signature) == 0 {
		return &Error{Reason: "signature"}
	}
	for _, key := range keys {
		if m.Verify(p.input, p.signature, key) == nil {
			return nil
		}
	}
	return &Error{Reason: "signature"}
}

// sign returns the signature of input.
func sign(algorithm, input string, key crypto.PrivateKey) ([]byte, error) {
	return method(algorithm).Sign(input, key)
}

// method returns the library's implementation of an algorithm, nil when we do not know it. There is no "none".
func method(algorithm string) jwt.SigningMethod {
	switch algorithm {
	case "HS256":
		return jwt.SigningMethodHS256
	case "HS384":
		return jwt.SigningMethodHS384
	case "HS512":
		return jwt.SigningMethodHS512
	case "RS256":
		return jwt.SigningMethodRS256
	case "RS384":
		return jwt.SigningMethodRS384
	case "RS512":
		return jwt.SigningMethodRS512
	case "PS256":
		return strictPSS(jwt.SigningMethodPS256)
	case "PS384":
		return strictPSS(jwt.SigningMethodPS384)
	case "PS512":
		return strictPSS(jwt.SigningMethodPS512)
	case "ES256":
		return jwt.SigningMethodES256
	case "ES384":
		return jwt.SigningMethodES384
	case "ES512":
		return jwt.SigningMethodES512
	case "EdDSA":
		return jwt.SigningMethodEdDSA
	}
	return nil
}

// strictPSS returns m with the one salt length that RFC 7518 section 3.5 allows, in verifying too.
func strictPSS(m *jwt.SigningMethodRSAPSS) *jwt.SigningMethodRSAPSS {
	salt := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}
	return &jwt.SigningMethodRSAPSS{SigningMethodRSA: m.SigningMethodRSA, Options: salt, VerifyOptions: salt}
}

// rules are what the library checks of the claims of one issuer.
type rules struct{ validator *jwt.Validator }

func newRules(cfg *Issuer, all *Config) rules {
	return rules{jwt.NewValidator(
		jwt.WithIssuer(cfg.Issuer),
		jwt.WithAudience(cfg.Audiences...),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(all.Now),
	)}
}

func (r rules) check(c *claims) error {
	registered := jwt.RegisteredClaims{
		Issuer:    c.issuer,
		Subject:   c.subject,
		Audience:  c.audience,
		ExpiresAt: jwt.NewNumericDate(c.expires),
	}
	if !c.notBefore.IsZero() {
		registered.NotBefore = jwt.NewNumericDate(c.notBefore)
	}
	err := r.validator.Validate(registered)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return &Error{Reason: "audience"}
	case errors.Is(err, jwt.ErrTokenExpired):
		return &Error{Reason: "expired"}
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return &Error{Reason: "early"}
	}
	return &Error{Reason: "claims"}
}
