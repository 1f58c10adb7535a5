package signin

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"strings"
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/seal"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// signingKeys are the keys of all tokens.
type signingKeys struct {
	keys    []auth.Key       // newest first
	public  *auth.PublicKeys // the same
	adopted uint64           // of the ring, when they were derived
}

// signer signs access tokens.
type signer struct {
	ring *seal.Ring
	now  func() time.Time
	made atomic.Pointer[signingKeys] // nil: none were derived yet
}

// keys returns the keys of all tokens. They follow the keys of the ring, whose rotation
// has three steps for this reason: each replica knows a key before the first token is
// signed with it, and keeps it until the last one has expired.
func (s *signer) keys() *signingKeys {
	adopted := s.ring.Adopted()
	if made := s.made.Load(); made != nil && made.adopted == adopted {
		return made
	}
	made := &signingKeys{adopted: adopted}
	for _, seed := range s.ring.Derive("access tokens, EdDSA") {
		private := ed25519.NewKeyFromSeed(seed)
		public := private.Public().(ed25519.PublicKey)
		made.keys = append(made.keys, auth.Key{
			ID:     base64.RawURLEncoding.EncodeToString(public[:9]),
			Public: public, Private: private,
		})
	}
	made.public = auth.NewPublicKeys(adopted, made.keys...)
	s.made.Store(made)
	return made
}

// sign signs an access token.
// https://www.rfc-editor.org/rfc/rfc9068#section-2.2
func (s *signer) sign(at address, claims auth.Claims, scopes []string) (string, error) {
	now := s.now()
	claims.Type, claims.Issuer, claims.Audience = "at+jwt", at.issuer(), at.resource()
	claims.IssuedAt, claims.Expiry = now, now.Add(tokenLife)
	claims.Extra["jti"] = rand.Text()
	if len(scopes) > 0 {
		claims.Extra["scope"] = strings.Join(scopes, " ")
	}
	return auth.Sign(s.keys().keys[0], "EdDSA", claims)
}

// familyOf returns the family of an access token, "" of one that a client has for itself.
// It is false if the token is none of this server.
func (s *signer) familyOf(token string) (family string, ours bool) {
	payload, err := s.keys().public.Payload(token)
	var claims struct {
		Family string `json:"family"`
	}
	ours = err == nil && strictjson.Unmarshal(payload, &claims) == nil
	return claims.Family, ours
}

// tenantClaim has the one tenant that an access token is for.
const tenantClaim = "tenant"
