package auth_test

import (
	"crypto"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// joseAccepts is the opinion of another library.
func joseAccepts(token string, key crypto.PublicKey, algorithm string) bool {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(algorithm)})
	if err != nil {
		return false
	}
	var said jwt.Claims
	if parsed.Claims(key, &said) != nil {
		return false
	}
	expected := jwt.Expected{Issuer: issuerName, AnyAudience: jwt.Audience{audience}, Time: at}
	return said.Subject != "" && said.Expiry != nil && said.ValidateWithLeeway(expected, time.Minute) == nil
}

// FuzzVerify signs any header and claims, so that parsing is all that can refuse them:
// nothing breaks, nothing is told, and nothing is accepted that another library refuses.
func FuzzVerify(f *testing.F) {
	good, said := header("HS256").String(), claims(at).String()
	f.Add(good, said)
	f.Add(good, strings.Replace(said, "sub", "Sub", 1))
	f.Add(good, said+"{}")
	f.Add(`{"alg":"HS256","crit":["b64"],"b64":false}`, said)
	f.Add(`{"alg":"HS256","kid":"x","jwk":{"kty":"oct","k":"AAAA"}}`, said)
	f.Add(`{"alg":"none"}`, `{"sub":1e400}`)
	f.Add("\xff", strings.Repeat("[", 100))
	key := auth.Key{Public: secret}
	v := verifier(f, acme(key, "HS256"))
	f.Fuzz(func(t *testing.T, header, claims string) {
		token := mint(secret, raw(header), raw(claims))
		p, err := v.Verify(t.Context(), token)
		if err != nil {
			if refused, ok := errors.AsType[*auth.Error](err); !ok || refused.Reason == "" {
				t.Fatalf("got %v, want an *auth.Error", err)
			}
			return
		}
		if p.Issuer != issuerName || p.Subject == "" || p.TenantID != "acme" {
			t.Fatalf("accepted %s %s as %+v", header, claims, p)
		}
		if plainHeader(header) && !joseAccepts(token, secret, "HS256") {
			t.Fatalf("accepted what go-jose refuses: %s %s", header, claims)
		}
	})
}

// plainHeader reports whether a header has only what we read too: go-jose also reads keys
// and certificates, and minds when they are broken.
func plainHeader(text string) bool {
	var members map[string]any
	if json.Unmarshal([]byte(text), &members) != nil {
		return false
	}
	for name := range members {
		if name != "alg" && name != "kid" && name != "typ" {
			return false
		}
	}
	return true
}

// FuzzToken reads any text as a token: none is accepted, and nothing breaks.
func FuzzToken(f *testing.F) {
	f.Add("..")
	f.Add(encode(`{"alg":"none"}`) + "." + encode(claims(at).String()) + ".")
	f.Add(encode(`{"alg":"HS256"}`) + "." + encode(claims(at).String()) + ".AAAA")
	v := verifier(f, acme(auth.Key{Public: secret}, "HS256"))
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := v.Verify(t.Context(), token); err == nil {
			t.Fatalf("accepted %q", token)
		}
	})
}
