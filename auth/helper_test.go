package auth_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/drawbridge-mcp/drawbridge/auth"
)

const (
	issuerName = "https://login.acme.example/"
	audience   = "https://mcp.example.com/mcp"
)

var secret = []byte("Zp3!vQ8#xT5@kW1$mB7%nD4^gH9&jL2*rF6(cY0)sA-uE+iO=wX~hK,zM.bV/qC;")

// at is when the tests without a bubble of their own take place.
var at = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// reasons are all the words that Error.Reason may be.
var reasons = []string{
	"missing", "malformed", "algorithm", "key", "signature", "issuer", "audience", "expired", "early",
	"lifetime", "tenant",
	"claims", "unavailable",
}

// rsaKey is made once: it takes long under the race detector.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey { return made(rsa.GenerateKey(rand.Reader, 2048)) })

func made[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func newEC() *ecdsa.PrivateKey { return made(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

func newEd() ed25519.PrivateKey {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	return made(private, err)
}

func keyOf(id string, private crypto.Signer) auth.Key {
	return auth.Key{ID: id, Public: private.Public(), Private: private}
}

// acme returns an issuer that signs with key.
func acme(key auth.Key, algorithms ...string) auth.Issuer {
	return auth.Issuer{
		Issuer: issuerName, Algorithms: algorithms, Audiences: []string{audience}, Tenant: "acme",
		Keys: []auth.Key{key},
	}
}

func verifier(t testing.TB, issuers ...auth.Issuer) *auth.Verifier {
	t.Helper()
	v, err := auth.New(auth.Config{Issuers: issuers, Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// members are a header or claims under construction: name and JSON text by turns, in
// order, repeats allowed.
type members []string

func (m members) String() string {
	var out strings.Builder
	for i := 0; i < len(m); i += 2 {
		fmt.Fprintf(&out, ",%q:%s", m[i], m[i+1])
	}
	return "{" + strings.TrimPrefix(out.String(), ",") + "}"
}

// with returns m with value in the place of name's, or at the end.
func (m members) with(name, value string) members {
	m = slices.Clone(m)
	for i := 0; i < len(m); i += 2 {
		if m[i] == name {
			m[i+1] = value
			return m
		}
	}
	return append(m, name, value)
}

func (m members) without(name string) members {
	var out members
	for i := 0; i < len(m); i += 2 {
		if m[i] != name {
			out = append(out, m[i], m[i+1])
		}
	}
	return out
}

func header(algorithm string) members {
	return members{"alg", `"` + algorithm + `"`, "typ", `"at+jwt"`}
}

// claims are those of a token that is accepted.
func claims(now time.Time) members {
	return members{
		"iss", `"` + issuerName + `"`, "sub", `"alice"`, "aud", `"` + audience + `"`,
		"iat", fmt.Sprint(now.Unix()), "exp", fmt.Sprint(now.Add(time.Hour).Unix()),
		"azp", `"cli"`, "scope", `"tools.read tools.call"`,
	}
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// mint signs any text as header and claims, without the code under test and without a JWT
// library.
func mint(key any, header, claims fmt.Stringer) string {
	return sign(key, encode(header.String())+"."+encode(claims.String()))
}

func sign(key any, input string) string {
	sum := sha256.Sum256([]byte(input))
	var signature []byte
	switch key := key.(type) {
	case []byte:
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(input))
		signature = mac.Sum(nil)
	case *rsa.PrivateKey:
		signature = made(rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:]))
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		made(r, err)
		signature = s.FillBytes(make([]byte, 64))
		r.FillBytes(signature[:32])
	case ed25519.PrivateKey:
		signature = ed25519.Sign(key, []byte(input))
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// reason returns why a token was refused, "" when it was not, and fails when the error is
// not one of ours or tells anything of the token.
func reason(t testing.TB, token string, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	refused, ok := errors.AsType[*auth.Error](err)
	if !ok || !slices.Contains(reasons, refused.Reason) {
		t.Fatalf("got error %v (%T), want an *auth.Error with a known reason", err, err)
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		for part := range strings.SplitSeq(token, ".") {
			if len(part) > 8 && strings.Contains(cause.Error(), part) {
				t.Fatalf("error text %q holds a part of the token", cause)
			}
		}
		for _, word := range []string{"alice", "canary", issuerName} {
			if strings.Contains(cause.Error(), word) {
				t.Fatalf("error text %q holds %q from the token", cause, word)
			}
		}
	}
	return refused.Reason
}

// keySet returns the JWK Set of public keys, as go-jose writes it.
func keySet(keys ...auth.Key) []byte {
	var set jose.JSONWebKeySet
	for _, key := range keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public, KeyID: key.ID, Use: "sig"})
	}
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(set); err != nil {
		panic(err)
	}
	return out.Bytes()
}
