// This file is the only one that imports github.com/golang-jwt/jwt/v5. What is dangerous
// about that library: it ignores crit (RFC 7515 section 4.1.11) and b64 (RFC 7797), takes
// the last of two members of one name, has no bound on size or depth, skips line breaks
// in base64url, and accepts any salt length for PS256, PS384 and PS512. So its parser is
// not used: parse reads tokens and refuses all that, and the library only writes tokens,
// and verifies signatures and registered claims.

package auth

import (
	"crypto"
	"crypto/rsa"
	"errors"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// maxToken is the longest token, in bytes: with the ids of two hundred groups, as many as
// Microsoft Entra puts into one, it has some 13,000.
const maxToken = 16 << 10

// parsed is a token that has the right form. Nothing in it is verified yet.
type parsed struct {
	algorithm string
	keyID     string // "" when the header has no kid
	typ       []byte // JSON; nil when the header has none
	claims    claims
	input     string // what was signed: the first two parts of the token and the dot between them
	signature []byte
}

// parse takes apart a token. It refuses every form that two parsers could read
// differently: if two programs disagree about what a token says, one can be played off
// against the other.
func parse(token string) (*parsed, error) {
	switch {
	case token == "":
		return nil, &Error{Reason: "missing"}
	case len(token) > maxToken:
		return nil, refuse("malformed", "longer than 16 KiB")
	}
	p, payload, err := takeApart(token)
	if err != nil {
		return nil, err
	}
	if p.typ != nil && !isAccessToken(p.typ) {
		return nil, refuse("malformed", "the header's typ is not fit")
	}
	if p.claims, err = readClaims(payload); err != nil {
		return nil, err
	}
	if p.claims.issuer == "" {
		return nil, refuse("claims", "iss is needed")
	}
	return p, nil
}

// takeApart returns a token without its claims, and the JSON text of the claims.
func takeApart(token string) (*parsed, []byte, error) {
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 3 {
		return nil, nil, refuse("malformed", "not three parts")
	}
	if strings.ContainsAny(token, "\r\n") { // the decoder would skip them
		return nil, nil, refuse("malformed", "a line break")
	}
	var decoded [3][]byte
	for i, part := range parts {
		data, err := unbase64(part)
		if err != nil {
			return nil, nil, refuse("malformed", "not base64url")
		}
		decoded[i] = data
	}
	p := &parsed{input: token[:strings.LastIndexByte(token, '.')], signature: decoded[2]}
	return p, decoded[1], p.readHeader(decoded[0])
}

// readHeader takes alg and kid from the header. Keys in it and addresses of keys (jwk,
// jku, x5c, x5u) are ignored, since whoever forges a token could put their own there:
// keys come from the configuration only.
func (p *parsed) readHeader(data []byte) error {
	members, err := Members(data, "alg", "kid", "typ", "cty", "crit", "b64", "zip", "enc")
	if err != nil {
		return &Error{Reason: "malformed", Err: err}
	}
	for _, m := range members {
		ok := true
		switch m.Name {
		case "alg":
			p.algorithm, ok = strictjson.Text(m.Value)
		case "kid":
			p.keyID, ok = strictjson.Text(m.Value)
			ok = ok && len(p.keyID) <= MaxName
		case "typ":
			p.typ = m.Value
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

// isAccessToken tells whether typ allows that the token is an access token. Logout
// tokens, proofs of possession and the like name a type of their own, so that nobody
// takes them for one: RFC 8725 section 3.11. Many issuers give access tokens the type JWT
// or none.
func isAccessToken(typ []byte) bool {
	name, ok := strictjson.Text(typ)
	name = strings.TrimPrefix(strings.ToLower(name), "application/")
	return ok && (name == "jwt" || name == "at+jwt")
}

// signed returns the one of keys that made the signature, or an error if none did.
func (p *parsed) signed(keys []verifying) (verifying, error) {
	m := methods[p.algorithm]
	if m == nil || len(p.signature) == 0 {
		return verifying{}, &Error{Reason: "signature"}
	}
	for _, key := range keys {
		if m.Verify(p.input, p.signature, key.public) == nil {
			return key, nil
		}
	}
	return verifying{}, &Error{Reason: "signature"}
}

// sign returns a token. The algorithm must be one of methods and fit the key.
func sign(algorithm string, header, claims map[string]any, key crypto.PrivateKey) (string, error) {
	token := jwt.Token{Method: methods[algorithm], Header: header, Claims: jwt.MapClaims(claims)}
	return token.SignedString(key)
}

// methods are the library's implementations of the algorithms that are known here. There
// is no "none".
var methods = map[string]jwt.SigningMethod{
	"HS256": jwt.SigningMethodHS256, "HS384": jwt.SigningMethodHS384, "HS512": jwt.SigningMethodHS512,
	"RS256": jwt.SigningMethodRS256, "RS384": jwt.SigningMethodRS384, "RS512": jwt.SigningMethodRS512,
	"PS256": strictPSS(jwt.SigningMethodPS256), "PS384": strictPSS(jwt.SigningMethodPS384),
	"PS512": strictPSS(jwt.SigningMethodPS512), "ES256": jwt.SigningMethodES256,
	"ES384": jwt.SigningMethodES384, "ES512": jwt.SigningMethodES512, "EdDSA": jwt.SigningMethodEdDSA,
}

// strictPSS returns m with the one salt length that RFC 7518 section 3.5 allows, also
// when it verifies.
func strictPSS(m *jwt.SigningMethodRSAPSS) *jwt.SigningMethodRSAPSS {
	salt := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}
	return &jwt.SigningMethodRSAPSS{SigningMethodRSA: m.SigningMethodRSA, Options: salt, VerifyOptions: salt}
}

// rules are the checks of the claims of one issuer that the library makes: iss, aud, exp
// and nbf.
type rules struct {
	validator *jwt.Validator
	now       func() time.Time
}

// newRules returns the rules of the issuer cfg, by the clock of all.
func newRules(cfg *Issuer, all *Config) rules {
	return rules{validator: jwt.NewValidator(
		jwt.WithIssuer(cfg.Issuer),
		jwt.WithAudience(cfg.Audiences...),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(all.Now),
	), now: all.Now}
}

// check returns an *Error if the claims break a rule. Of several faults it names audience
// before expired before early.
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
		return c.unfit("expired", "exp", "its time is over", "after "+unixTime(r.now().Add(-leeway)))
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return c.unfit("early", "nbf", "its time has not come", "at most "+unixTime(r.now().Add(leeway)))
	}
	return &Error{Reason: "claims"}
}
