package auth

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Claims of a token to sign. What is zero is left out.
type Claims struct {
	Issuer, Subject, Audience string
	Extra                     map[string]any // tenant claim, scope; the claims above and below win over these
	IssuedAt, Expiry          time.Time
}

// Sign signs claims with key.Private and the named algorithm, for trials.
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
	header := map[string]any{"alg": algorithm, "typ": "JWT"}
	if key.ID != "" {
		header["kid"] = key.ID
	}
	input, err := encode(header)
	if err != nil {
		return "", err
	}
	payload, err := encode(claims.members())
	if err != nil {
		return "", err
	}
	input += "." + payload
	signature, err := sign(algorithm, input, key.Private)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

func (c Claims) members() map[string]any {
	members := maps.Clone(c.Extra)
	if members == nil {
		members = make(map[string]any)
	}
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

func encode(members map[string]any) (string, error) {
	data, err := strictjson.Marshal(members)
	if err != nil {
		return "", fmt.Errorf("encode token: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(data), nil
}
