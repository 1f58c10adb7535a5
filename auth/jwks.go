package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// maxSet is the longest text of a key set, in bytes.
const maxSet = 256 << 10

// errNoSet says that a text is no key set. It is the one error for that, because the
// reason may quote the text.
var errNoSet = errors.New("not a JWK Set")

// jwk is a key as RFC 7517 section 4 and RFC 7518 section 6 write it. Private parts and
// certificates are not read.
type jwk struct {
	Type       string   `json:"kty"`
	Use        string   `json:"use"`
	Operations []string `json:"key_ops"`
	Algorithm  string   `json:"alg"`
	ID         string   `json:"kid"`
	Curve      string   `json:"crv"`
	X          string   `json:"x"`
	Y          string   `json:"y"`
	Modulus    string   `json:"n"`
	Exponent   string   `json:"e"`
	Secret     string   `json:"k"`
}

// parseSet reads a key set (JWK Set). Keys that are not for verifying tokens, or not fit
// for it, are left out, as RFC 7517 section 5 asks. Those that are a danger are refused:
// they are left out too, and stand in the set's refused. Shared secrets are read only if
// secrets is true, which it is for a file of our own: from an address, everybody could
// read them.
func parseSet(data []byte, secrets bool) (*keySet, error) {
	elements, err := setElements(data)
	if err != nil {
		return nil, err
	}
	set := &keySet{digest: sha256.Sum256(data)}
	for _, element := range elements {
		var key jwk
		if strictjson.Unmarshal(element, &key) != nil || !key.verifies() {
			continue
		}
		if key.Type == "oct" && !secrets {
			set.refuse(
				key.ID, "a shared secret where others can read it; whoever has read it can make tokens "+
					"wherever it is in use")
			continue
		}
		added, err := key.verifying()
		if err == nil {
			set.keys = append(set.keys, added)
		} else if errors.Is(err, errROCA) {
			set.refuse(key.ID, errROCA.Error())
		}
	}
	set.unite()
	set.refuseMixture()
	return set, set.check()
}

// setElements returns the elements of the set's member keys, each a JSON value.
func setElements(data []byte) ([]json.RawMessage, error) {
	if len(data) > maxSet {
		return nil, fmt.Errorf("more than %d bytes", maxSet)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if strictjson.Unmarshal(data, &set) != nil || set.Keys == nil {
		return nil, errNoSet
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("more than %d keys", maxKeys)
	}
	return set.Keys, nil
}

// verifies tells whether the key is declared for verifying signatures and not for
// something else, and its id is one that a token can name.
func (k *jwk) verifies() bool {
	return (k.Use == "" || k.Use == "sig") &&
		(k.Operations == nil || slices.Contains(k.Operations, "verify")) && len(k.ID) <= maxName
}

// verifying returns the key ready for use, or says why it is not fit for that. A key that
// names an algorithm serves that one alone.
func (k *jwk) verifying() (verifying, error) {
	key, err := newVerifying(k.ID, k.public())
	if err != nil {
		return verifying{}, err
	}
	if k.Algorithm != "" {
		if !slices.Contains(key.algorithms, k.Algorithm) {
			return verifying{}, errors.New("an algorithm that a key of this type does not serve")
		}
		key.algorithms = []string{k.Algorithm}
	}
	return key, nil
}

// public returns the key itself, nil if it cannot be read.
func (k *jwk) public() crypto.PublicKey {
	switch k.Type {
	case "RSA":
		return k.rsa()
	case "EC":
		return k.ecdsa()
	case "OKP":
		if x := unbase64(k.X); k.Curve == "Ed25519" && len(x) == ed25519.PublicKeySize {
			return ed25519.PublicKey(x)
		}
	case "oct":
		return unbase64(k.Secret)
	}
	return nil
}

// rsa returns an RSA key. An exponent that does not fit 31 bits is refused, because an
// int may have no more.
func (k *jwk) rsa() crypto.PublicKey {
	e := new(big.Int).SetBytes(unbase64(k.Exponent))
	if e.BitLen() > 31 {
		return nil
	}
	return &rsa.PublicKey{N: new(big.Int).SetBytes(unbase64(k.Modulus)), E: int(e.Int64())}
}

// ecdsa returns an ECDSA key. The coordinates must have their full length: RFC 7518
// section 6.2.1.2.
func (k *jwk) ecdsa() crypto.PublicKey {
	curve := map[string]elliptic.Curve{
		"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521(),
	}[k.Curve]
	if curve == nil {
		return nil
	}
	x, y := unbase64(k.X), unbase64(k.Y)
	if size := (curve.Params().BitSize + 7) / 8; len(x) != size || len(y) != size {
		return nil
	}
	// 4 is how SEC 1 section 2.3.3 marks a point that is not compressed.
	public, err := ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{4}, x, y))
	if err != nil {
		return nil
	}
	return public
}

// unbase64 returns the bytes of base64url text, nil if it is no such text. Whoever uses
// them finds nil too short.
func unbase64(text string) []byte {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil
	}
	return data
}
