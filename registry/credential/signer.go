package credential

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Type is the typ of identities, so that no other token of this gateway passes for one.
const Type = "drawbridge-identity+jwt"

// algorithm of identities. Every library knows it, and its signatures are short.
const algorithm = "ES256"

// retiredFor is how long a key is published after it was taken away. What it signed is
// good for less.
const retiredFor = 10 * time.Minute

// Signer signs identities, and publishes the keys by which servers check them. The keys
// follow from secrets that replicas share, newest first, and are no use for finding
// those: the first signs, and all are published. So a new one is known everywhere before
// it signs, if it is added at the end first, as is done with the keys of sessions. It is
// safe for concurrent use.
type Signer struct {
	now func() time.Time

	mu   sync.Mutex // guards the field below
	keys []signing  // the first signs; those that were taken away at the end
}

// signing is one key of a Signer.
type signing struct {
	auth.Key

	jwk     jwk
	retired time.Time // when it was taken away; zero: it is in force
}

// jwk is the public part as RFC 7517 writes it.
type jwk struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	Y         string `json:"y"`
	ID        string `json:"kid"`
	Algorithm string `json:"alg"`
	Use       string `json:"use"`
}

// NewSigner returns a signer whose keys follow from the secrets, newest first. Without
// any its key is random, so that nobody else has it and it is another after a restart.
func NewSigner(now func() time.Time, secrets ...[]byte) *Signer {
	if len(secrets) == 0 {
		fresh := make([]byte, sha256.Size)
		_, _ = rand.Read(fresh) // crypto/rand never returns an error, it ends the program instead
		secrets = [][]byte{fresh}
	}
	s := &Signer{now: now}
	s.Adopt(secrets...)
	return s
}

// Adopt puts other secrets in force. The keys of those that are gone are published a
// while longer, for what they have signed.
func (s *Signer) Adopt(secrets ...[]byte) {
	next := make([]signing, 0, len(secrets))
	for _, secret := range secrets {
		next = append(next, newSigning(secret))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, old := range s.keys {
		if slices.ContainsFunc(next, func(k signing) bool { return k.ID == old.ID }) {
			continue
		}
		if old.retired.IsZero() {
			old.retired = s.now()
		}
		next = append(next, old)
	}
	s.keys = next
}

// newSigning returns the key that follows from a secret. A wide random number is reduced
// to one below the order of the curve, which leaves no measurable preference:
// FIPS 186-5, appendix A.2.1.
func newSigning(secret []byte) signing {
	curve := elliptic.P256()
	// only a longer key could fail
	wide := must(hkdf.Key(sha256.New, secret, nil, "drawbridge identity "+algorithm+" 1", 48))
	order := new(big.Int).Sub(curve.Params().N, big.NewInt(1))
	d := new(big.Int).SetBytes(wide)
	d.Mod(d, order).Add(d, big.NewInt(1))
	// d is from 1 to the order less 1
	private := must(ecdsa.ParseRawPrivateKey(curve, d.FillBytes(make([]byte, 32))))
	point := must(private.PublicKey.Bytes()) // 4, then both coordinates: SEC 1 section 2.3.3
	text := base64.RawURLEncoding.EncodeToString
	k := jwk{
		Type: "EC", Curve: "P-256", X: text(point[1:33]), Y: text(point[33:]),
		Algorithm: algorithm, Use: "sig",
	}
	// RFC 7638 section 3, whose members are in this order
	sum := sha256.Sum256([]byte(`{"crv":"P-256","kty":"EC","x":"` + k.X + `","y":"` + k.Y + `"}`))
	k.ID = text(sum[:])
	return signing{Key: auth.Key{ID: k.ID, Public: &private.PublicKey, Private: private}, jwk: k}
}

// current returns the key that signs.
func (s *Signer) current() auth.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[0].Key
}

// KeySet returns the keys by which servers check identities, as a JWK Set.
func (s *Signer) KeySet() []byte {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = slices.DeleteFunc(s.keys, func(k signing) bool {
		return !k.retired.IsZero() && now.Sub(k.retired) > retiredFor
	})
	all := make([]jwk, len(s.keys))
	for i := range s.keys {
		all[i] = s.keys[i].jwk
	}
	return must(strictjson.Marshal(map[string][]jwk{"keys": all})) // texts alone
}

// must returns what cannot fail.
func must[T any](made T, err error) T {
	if err != nil {
		panic("credential: " + err.Error())
	}
	return made
}
