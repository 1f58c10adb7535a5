package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

const (
	minRSA = 2048 // bits: RFC 7518 section 3.3
	maxRSA = 8192 // bits; a longer key costs more time than it is worth
)

// Key verifies the tokens of one issuer and, if Private is set, signs them.
type Key struct {
	// ID is the key id, which a token names in its kid. "" is the key of tokens without
	// kid and, if it is the issuer's only key, of all its tokens.
	ID string
	// Public is a *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey or, for HMAC, a
	// shared secret as []byte.
	Public crypto.PublicKey
	// Private is the private part, and of a shared secret the same bytes again. Nil: the
	// key only verifies.
	Private crypto.PrivateKey
}

// Algorithm returns the usual algorithm of the key, "" if it serves none.
func (k Key) Algorithm() string {
	served, err := algorithms(k.Public)
	if err != nil {
		return ""
	}
	return served[0]
}

// AlgorithmAmong returns the first of the allowed algorithms that the key can sign with,
// "" if it can with none.
func (k Key) AlgorithmAmong(allowed []string) string {
	served, _ := algorithms(k.Public) // an error: none
	for _, name := range allowed {
		if k.Private != nil && slices.Contains(served, name) {
			return name
		}
	}
	return ""
}

// algorithms returns the JWS algorithms that a public key or secret serves. The algorithm
// of a token must be among those of its key: a token that names HS256 must never be
// verified with a public RSA key as the secret. The error says why the key serves none.
func algorithms(public crypto.PublicKey) ([]string, error) {
	switch key := public.(type) {
	case *rsa.PublicKey:
		if err := checkRSA(key); err != nil {
			return nil, err
		}
		return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, nil
	case *ecdsa.PublicKey:
		return curveAlgorithms(key)
	case ed25519.PublicKey:
		if len(key) != ed25519.PublicKeySize {
			return nil, errors.New("an Ed25519 key of the wrong length")
		}
		return []string{"EdDSA"}, nil
	case []byte:
		return secretAlgorithms(key)
	case nil:
		return nil, errors.New("no public key")
	}
	return nil, fmt.Errorf("a key of a kind that signs no tokens: %T", public)
}

// errROCA says that the private part of an RSA key can be computed from the public one.
var errROCA = errors.New(
	"an RSA key with the weakness CVE-2017-15361 (ROCA): whoever has the public part can compute the " +
		"private one; make a new key")

// checkRSA returns an error if the key is too weak, too large or impossible: a modulus is
// odd, and so is the exponent.
func checkRSA(key *rsa.PublicKey) error {
	if key == nil || key.N == nil || key.N.Sign() <= 0 {
		return errors.New("no RSA key")
	}
	if bits := key.N.BitLen(); bits < minRSA || bits > maxRSA {
		return fmt.Errorf("an RSA key of %d bits; %d to %d are allowed", bits, minRSA, maxRSA)
	}
	if key.N.Bit(0) == 0 || key.E < 3 || key.E&1 == 0 {
		return errors.New("an RSA key that cannot be one")
	}
	if rocaWeak(key.N) {
		return errROCA
	}
	return nil
}

// curveAlgorithms returns the one algorithm that belongs to the curve of the key.
func curveAlgorithms(key *ecdsa.PublicKey) ([]string, error) {
	if key == nil || key.Curve == nil {
		return nil, errors.New("no ECDSA key")
	}
	if _, err := key.Bytes(); err != nil {
		return nil, errors.New("an ECDSA key that is no point of its curve")
	}
	switch key.Curve {
	case elliptic.P256():
		return []string{"ES256"}, nil
	case elliptic.P384():
		return []string{"ES384"}, nil
	case elliptic.P521():
		return []string{"ES512"}, nil
	}
	return nil, errors.New("an ECDSA key on a curve that signs no tokens")
}

// secretAlgorithms returns the algorithms whose hash is not longer than the secret, as
// RFC 7518 section 3.2 asks.
func secretAlgorithms(secret []byte) ([]string, error) {
	if err := checkSecret(secret); err != nil {
		return nil, err
	}
	served := []string{"HS256"}
	if len(secret) >= 48 {
		served = append(served, "HS384")
	}
	if len(secret) >= 64 {
		served = append(served, "HS512")
	}
	return served, nil
}

// ParseKeys reads a PEM file of public keys, private keys or certificates (PKIX, PKCS#1,
// PKCS#8, SEC 1, X.509). It may hold several; a private key together with its public key
// or certificate is one key. It does not ask whether a certificate is valid: the operator
// has put it there. Errors say nothing of what is in the file.
func ParseKeys(text []byte) ([]Key, error) {
	var keys []Key
	begun := bytes.Count(text, []byte("-----BEGIN "))
	// pem.Decode skips a damaged block without a word. Counting the beginnings shows that
	// it did.
	for begun > 0 {
		var block *pem.Block
		block, text = pem.Decode(text)
		if begun--; block == nil || bytes.Count(text, []byte("-----BEGIN ")) != begun {
			return nil, errors.New("a PEM block that is cut off or damaged")
		}
		if block.Type == "EC PARAMETERS" {
			continue
		}
		key, err := parseBlock(block)
		if err != nil {
			return nil, err
		}
		if _, err := algorithms(key.Public); err != nil {
			return nil, err
		}
		keys = merge(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New("no PEM block with a key")
	}
	return keys, nil
}

// merge adds key to keys. If one of them has the same public part, it only takes over the
// private part.
func merge(keys []Key, key Key) []Key {
	public, ok := key.Public.(interface{ Equal(crypto.PublicKey) bool })
	for i := range keys {
		if ok && public.Equal(keys[i].Public) {
			if keys[i].Private == nil {
				keys[i].Private = key.Private
			}
			return keys
		}
	}
	return append(keys, key)
}

// parseBlock reads one key. Errors of the parsers are not passed on, because they may
// quote the file.
func parseBlock(block *pem.Block) (Key, error) {
	var key any
	var err error
	switch block.Type {
	case "PUBLIC KEY":
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var certificate *x509.Certificate
		if certificate, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = certificate.PublicKey
		}
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		return Key{}, fmt.Errorf("a PEM block of type %q holds no key that can be read here", block.Type)
	}
	if err != nil {
		return Key{}, fmt.Errorf("a PEM block of type %q that cannot be read", block.Type)
	}
	if private, ok := key.(crypto.Signer); ok {
		return Key{Public: private.Public(), Private: private}, nil
	}
	return Key{Public: key}, nil
}
