package auth

import "slices"

// PublicKeys verify who signed a token that is none for a Verifier, such as an ID token of
// a provider. What the token says is left to whoever asks. They are never changed.
type PublicKeys struct{ set *keySet }

// ReadPublicKeys reads a key set that was fetched, as a Verifier does.
func ReadPublicKeys(text []byte) (*PublicKeys, error) {
	set, err := parseSet(text, false)
	return &PublicKeys{set}, err
}

// NewPublicKeys returns the public parts of keys. Those that serve no algorithm are left
// out.
func NewPublicKeys(keys ...Key) *PublicKeys { return &PublicKeys{setOf(keys)} }

// Payload returns the claims, as JSON text, of a token that one of the keys has signed. A
// token that names no key is tried with all of them.
func (k *PublicKeys) Payload(token string) ([]byte, error) {
	p, payload, err := takeApart(token)
	if err != nil {
		return nil, err
	}
	fit := slices.DeleteFunc(slices.Clone(k.set.keys), func(key verifying) bool {
		return p.keyID != "" && !k.set.names(&key, p.keyID) || !key.serves([]string{p.algorithm})
	})
	_, err = p.signed(fit)
	return payload, err
}
