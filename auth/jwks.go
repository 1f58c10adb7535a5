package auth

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/go-jose/go-jose/v4"

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
	Use        string   `json:"use,omitzero"`
	Operations []string `json:"key_ops,omitzero"`
	Algorithm  string   `json:"alg,omitzero"`
	ID         string   `json:"kid,omitzero"`
	Curve      string   `json:"crv,omitzero"`
	X          string   `json:"x,omitzero"`
	Y          string   `json:"y,omitzero"`
	Modulus    string   `json:"n,omitzero"`
	Exponent   string   `json:"e,omitzero"`
	Secret     string   `json:"k,omitzero"`
}

// parseSet reads a key set (JWK Set). Keys that are not for verifying tokens, or not fit
// for it, are left out, as RFC 7517 section 5 asks. Those that are a danger are refused:
// they are left out too, and stand in the set's refused. Shared secrets, and keys with
// their private part, are read only if secrets is true, which it is for a file of our
// own: from an address, everybody could read them.
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
		if !secrets && hasPrivatePart(element) {
			set.refuse(key.ID, "its private part stands beside it, where others can read it; whoever has "+
				"read it can make tokens; make a new key")
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

// ReadKeySet reads a key set that was fetched, as a Verifier does, for an operator who
// asks beforehand. It returns which of its keys would be refused, and why. The error says
// that no token could be verified with an allowed algorithm, and then why keys are
// refused, too.
func ReadKeySet(text []byte, algorithms []string) (refused []string, err error) {
	set, err := parseSet(text, false)
	if err != nil {
		return nil, err
	}
	if !set.serves(algorithms) {
		return nil, errors.Join(errNoneServes, set.whole())
	}
	return set.refused, nil
}

var errNoneServes = errors.New("key set: no key in it serves one of the allowed algorithms")

// newFixedSet returns a source of the key set in a file. No key in it may be refused, and
// at least one must serve one of the allowed algorithms: the set is made by the issuer
// and may have keys for other purposes.
func newFixedSet(data []byte, allowed []string) (source, error) {
	set, err := parseSet(data, true)
	if err == nil {
		err = set.whole()
	}
	if err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	if !set.serves(allowed) {
		return nil, errNoneServes
	}
	return fixed(set), nil
}

// hasPrivatePart tells whether a key, as JSON text, has what signs with it.
func hasPrivatePart(element []byte) bool {
	var key struct {
		Private string `json:"d"`
	}
	return strictjson.Unmarshal(element, &key) == nil && key.Private != ""
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
		(k.Operations == nil || slices.Contains(k.Operations, "verify")) && len(k.ID) <= MaxName
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

// public returns the key itself, nil if it cannot be read. Text that is no strict base64
// is not read, as in tokens.
func (k *jwk) public() crypto.PublicKey {
	for _, text := range []string{k.X, k.Y, k.Secret} {
		if _, err := unbase64(text); err != nil {
			return nil
		}
	}
	if k.Type == "RSA" {
		return k.rsa()
	}
	text, err := strictjson.Marshal(k)
	var read jose.JSONWebKey
	if err != nil || read.UnmarshalJSON(text) != nil {
		return nil
	}
	return read.Key
}

// rsa returns an RSA key. go-jose would take no modulus of more than 4096 bits. An
// exponent of more than 31 bits is refused, because no signature is verified with one.
func (k *jwk) rsa() crypto.PublicKey {
	modulus, err := unbase64(k.Modulus)
	exponent, bad := unbase64(k.Exponent)
	e := new(big.Int).SetBytes(exponent)
	if err != nil || bad != nil || e.BitLen() > 31 {
		return nil
	}
	return &rsa.PublicKey{N: new(big.Int).SetBytes(modulus), E: int(e.Int64())}
}

// unbase64 returns the bytes of base64url text in its one spelling.
func unbase64(text string) ([]byte, error) { return base64.RawURLEncoding.Strict().DecodeString(text) }
