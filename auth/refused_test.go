package auth_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

// published is a key as an issuer publishes it, possibly one that must be refused.
type published struct {
	auth.Key

	number    int    // of the key itself, whatever is said of it
	algorithm string // with which it signs
	named     bool   // the set says so in alg
	use       string
	roca      bool
}

// pool returns keys of each kind, some of them to be refused.
func pool() []published {
	return []published{
		{Key: keyOf("", rsaKey()), algorithm: "RS256"},
		{Key: keyOf("", newEC()), algorithm: "ES256"},
		{Key: keyOf("", newEC()), algorithm: "ES256"},
		{Key: keyOf("", newEd()), algorithm: "EdDSA"},
		{Key: keyOf("", newEd()), algorithm: "EdDSA"},
		{Key: auth.Key{Public: secret, Private: secret}, algorithm: "HS256"},
		{Key: newSecret(), algorithm: "HS256"},
		{
			Key: auth.Key{Public: &rsa.PublicKey{N: rocaModulus(2048, 126), E: 65537}}, algorithm: "RS256",
			roca: true,
		},
	}
}

// element writes the key as a set has it.
func (p published) element() string {
	b64 := base64.RawURLEncoding.EncodeToString
	var out string
	switch public := p.Public.(type) {
	case []byte:
		out = fmt.Sprintf(`{"kty":"oct","k":%q`, b64(public))
	case *rsa.PublicKey:
		out = fmt.Sprintf(`{"kty":"RSA","n":%q,"e":%q`, b64(public.N.Bytes()),
			b64(big.NewInt(int64(public.E)).Bytes()))
	case *ecdsa.PublicKey:
		point := made(public.Bytes())
		out = fmt.Sprintf(`{"kty":"EC","crv":"P-256","x":%q,"y":%q`, b64(point[1:33]), b64(point[33:]))
	case ed25519.PublicKey:
		out = fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","x":%q`, b64(public))
	}
	if p.ID != "" {
		out += fmt.Sprintf(`,"kid":%q`, p.ID)
	}
	if p.named {
		out += fmt.Sprintf(`,"alg":%q`, p.algorithm)
	}
	if p.use != "" {
		out += fmt.Sprintf(`,"use":%q`, p.use)
	}
	return out + "}"
}

// readKeySet is a set of keys, read from a file of our own or fetched from an address.
type readKeySet struct {
	keys []published
	file bool
}

// sound tells whether a key by itself may verify.
func (d readKeySet) sound(key published) bool {
	return key.use != "enc" && !key.roca && (d.file || key.algorithm != "HS256")
}

// alone tells whether no other sound key of the set has the id of key.
func (d readKeySet) alone(key published) bool {
	return !slices.ContainsFunc(d.keys, func(other published) bool {
		return d.sound(other) && other.ID == key.ID && other.number != key.number
	})
}

// good tells whether the tokens of a key may be accepted because it stands in the set as
// it does. It is written down from the promise: an id names one key, secrets stand apart
// and never at an address, a key with a known weakness is none.
func (d readKeySet) good(key published) bool {
	beside := slices.ContainsFunc(d.keys, func(other published) bool {
		return other.algorithm != "HS256" && d.sound(other) && d.alone(other)
	})
	return d.sound(key) && d.alone(key) && (key.algorithm != "HS256" || !beside)
}

// refused tells whether any key of the set must be refused.
func (d readKeySet) refused() bool {
	return slices.ContainsFunc(d.keys, func(key published) bool { return key.use != "enc" && !d.good(key) })
}

// accepts tells whether tokens with the id of key that it has signed may be accepted.
func (d readKeySet) accepts(key published) bool {
	return slices.ContainsFunc(d.keys, func(other published) bool {
		return other.ID == key.ID && other.number == key.number && d.good(other)
	})
}

// text writes the set.
func (d readKeySet) text() []byte {
	var elements []string
	for _, key := range d.keys {
		elements = append(elements, key.element())
	}
	return []byte(`{"keys":[` + strings.Join(elements, ",") + `]}`)
}

// TestSetsWithKeysThatMustBeRefused draws sets with ids that stand twice, secrets beside
// public keys and weak keys: by an address, exactly the good keys verify, and the log
// says once of a set that others do not; a file is refused.
func TestSetsWithKeysThatMustBeRefused(t *testing.T) {
	keys := pool()
	r := rand.New(rand.NewPCG(5, 6))
	seen := map[bool]int{}
	for range 300 {
		set := readKeySet{file: true}
		for range 1 + r.IntN(5) {
			number := r.IntN(len(keys))
			key := keys[number]
			key.number = number
			key.ID = []string{"a", "b", "c", "d"}[r.IntN(4)]
			key.named = r.IntN(2) == 0
			key.use = []string{"", "", "sig", "enc"}[r.IntN(4)]
			set.keys = append(set.keys, key)
		}
		seen[set.refused()]++
		checkFile(t, set)
		checkAddress(t, readKeySet{keys: set.keys})
	}
	if seen[true] < 50 || seen[false] < 20 {
		t.Errorf("drew %d sets with a key to refuse and %d without, want more", seen[true], seen[false])
	}
}

// checkFile reads the set from a file.
func checkFile(t *testing.T, set readKeySet) {
	t.Helper()
	issuer := acme(auth.Key{}, "RS256", "ES256", "EdDSA", "HS256")
	issuer.Keys, issuer.JWKS = nil, set.text()
	v, err := auth.New(auth.Config{Issuers: []auth.Issuer{issuer}, Now: func() time.Time { return at }})
	want := !set.refused() && slices.ContainsFunc(set.keys, set.accepts)
	if (err == nil) != want {
		t.Errorf("%s\nin a file: got %v, want it taken: %v", set.text(), err, want)
	}
	if err == nil {
		checkTokens(t, v, set, at)
	}
}

// checkAddress fetches the set, and then again and again.
func checkAddress(t *testing.T, set readKeySet) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		issuer := acme(auth.Key{}, "RS256", "ES256", "EdDSA", "HS256")
		issuer.Keys, issuer.JWKSURL = nil, "https://login.acme.example/keys"
		v := runningWith(t, auth.Config{
			Issuers: []auth.Issuer{fetched(issuer, clientOf(func(r *http.Request) (*http.Response, error) {
				return answer(r, set.text()), nil
			}))},
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		synctest.Wait()
		told := v.KeySets()[0].Refused
		if (len(told) > 0) != set.refused() || strings.Count(log.String(), "key refused") != len(told) {
			t.Errorf("%s\nat an address: told %q, want a key refused: %v; log:\n%s", set.text(), told,
				set.refused(), &log)
		}
		before := log.Len()
		checkTokens(t, v, set, time.Now())
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if log.Len() > before {
			t.Errorf("%s\nsaid again of the same set:\n%s", set.text(), log.String()[before:])
		}
	})
}

// checkTokens verifies a token of each key.
func checkTokens(t *testing.T, v *auth.Verifier, set readKeySet, now time.Time) {
	t.Helper()
	for i, key := range set.keys {
		if key.Private == nil {
			continue // nobody here can sign with it
		}
		token := mint(key.Private, header(key.algorithm).with("kid", fmt.Sprintf("%q", key.ID)), claims(now))
		_, err := v.Verify(t.Context(), token)
		if got, want := reason(t, token, err) == "", set.accepts(key); got != want {
			t.Errorf("%s\nkey %d: accepted %v, want %v (%v)", set.text(), i, got, want, err)
		}
	}
}
