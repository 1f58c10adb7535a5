package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	_ "crypto/sha512" // of half of the algorithms
	"encoding/base64"
	"strings"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// signer signs tokens with one algorithm. It is its own code, so that what is forged does
// not depend on what is tried.
type signer struct {
	algorithm string
	hash      crypto.Hash // 0 for EdDSA, which hashes by itself
	private   any         // []byte, *rsa.PrivateKey, *ecdsa.PrivateKey or ed25519.PrivateKey
	person    person      // whose tokens it signs; its issuer has this key, and no other
}

// keyID is the kid of the one key that an issuer has.
const keyID = "k"

// signer is that of the person's own tokens.
func (p person) signer() signer { return signer{"HS256", crypto.SHA256, []byte(secrets[p.issuer]), p} }

// signers are one for each algorithm that a token may have, each of an issuer that signs
// with it and with no other.
var signers = sync.OnceValue(
	func() []signer { return newSigners(secrets["https://one.test/"] + secrets["https://two.test/"]) })

// strangers are the same with other keys, which no issuer has.
var strangers = sync.OnceValue(func() []signer { return newSigners(secrets[""] + secrets[""][:31] + "x") })

func newSigners(secret string) []signer {
	private := must.Have(rsa.GenerateKey(rand.Reader, 2048))
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	all := []signer{{algorithm: "EdDSA", private: must.Have(ed, err)}}
	for _, of := range []struct {
		bits  string
		hash  crypto.Hash
		curve elliptic.Curve
	}{{"256", crypto.SHA256, elliptic.P256()}, {"384", crypto.SHA384, elliptic.P384()}, {
		"512", crypto.SHA512,
		elliptic.P521(),
	}} {
		all = append(all,
			signer{algorithm: "HS" + of.bits, hash: of.hash, private: []byte(secret)},
			signer{algorithm: "RS" + of.bits, hash: of.hash, private: private},
			signer{algorithm: "PS" + of.bits, hash: of.hash, private: private},
			signer{
				algorithm: "ES" + of.bits, hash: of.hash,
				private: must.Have(ecdsa.GenerateKey(of.curve, rand.Reader)),
			})
	}
	for i := range all {
		all[i].person = people[0]
		all[i].person.issuer = "https://" + strings.ToLower(all[i].algorithm) + ".test/"
	}
	return all
}

// public is the key that an issuer has.
func (s signer) public() crypto.PublicKey {
	if private, is := s.private.(crypto.Signer); is {
		return private.Public()
	}
	return s.private
}

func (s signer) key() auth.Key { return auth.Key{ID: keyID, Public: s.public()} }

// sum is the hash of what is signed.
func (s signer) sum(input string) []byte {
	h := s.hash.New()
	h.Write([]byte(input))
	return h.Sum(nil)
}

// sign returns the signature, as the algorithm says.
func (s signer) sign(input string) []byte {
	switch private := s.private.(type) {
	case []byte:
		return macOf(s.hash, private, input)
	case *rsa.PrivateKey:
		if s.algorithm[0] == 'P' {
			return must.Have(rsa.SignPSS(rand.Reader, private, s.hash, s.sum(input),
				&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}))
		}
		return must.Have(rsa.SignPKCS1v15(rand.Reader, private, s.hash, s.sum(input)))
	case *ecdsa.PrivateKey:
		r, t, err := ecdsa.Sign(rand.Reader, private, s.sum(input))
		return append(fill(must.Have(r, err), s.half()), fill(t, s.half())...)
	case ed25519.PrivateKey:
		return ed25519.Sign(private, []byte(input))
	}
	panic("a key of no algorithm")
}

func macOf(hash crypto.Hash, secret []byte, input string) []byte {
	mac := hmac.New(hash.New, secret)
	mac.Write([]byte(input))
	return mac.Sum(nil)
}

// half is the length of one of the two numbers in an ECDSA signature, in bytes.
func (s signer) half() int {
	return (s.private.(*ecdsa.PrivateKey).Curve.Params().BitSize + 7) / 8
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// sealed returns what was signed with its signature.
func sealed(input string, signature []byte) string {
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// digest is the SHA-256 of a text, as keys are named by it.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
