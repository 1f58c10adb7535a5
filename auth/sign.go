package auth

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Claims are the claims of a token to sign. Those that are zero are left out.
type Claims struct {
	Issuer, Subject, Audience string
	// further claims, such as tenant and scopes; the fields win over them
	Extra            map[string]any
	IssuedAt, Expiry time.Time
	Type             string // the typ of the header; "": JWT
}

// Sign signs claims with key.Private and the named algorithm. It is for tokens of this
// gateway itself, and for trials, such as the command that makes tokens. It does not ask
// whether a Verifier would accept the token.
func Sign(key Key, algorithm string, claims Claims) (string, error) {
	if key.Private == nil {
		return "", errors.New("the key has no private part")
	}
	served, err := algorithms(key.Public)
	if err != nil {
		return "", err
	}
	if !slices.Contains(served, algorithm) || !pairs(key) {
		return "", fmt.Errorf("the key cannot sign with %q", algorithm)
	}
	header := map[string]any{"alg": algorithm, "typ": cmp.Or(claims.Type, "JWT")}
	if key.ID != "" {
		header["kid"] = key.ID
	}
	token, err := sign(algorithm, header, claims.members(), key.Private)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return token, nil
}

// members returns the claims by name, as they go into the token.
func (c Claims) members() map[string]any {
	members := maps.Collect(maps.All(c.Extra))
	for name, value := range map[string]string{"iss": c.Issuer, "sub": c.Subject, "aud": c.Audience} {
		if value != "" {
			members[name] = value
		}
	}
	for name, value := range map[string]time.Time{"iat": c.IssuedAt, "exp": c.Expiry} {
		if !value.IsZero() {
			members[name] = value.Unix()
		}
	}
	return members
}
