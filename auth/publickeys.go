package auth

import "slices"

// ReadPublicKeys reads a key set that was fetched, as a Verifier does.
func ReadPublicKeys(text []byte) (*PublicKeys, error) {
	set, err := parseSet(text, false)
	return &PublicKeys{set}, err
}

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
