package auth

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	maxKeys     = 50 // of a set
	maxNameless = 4  // without a key id; a token that names none is tried with each of them
)

// source is where the keys of an issuer come from: an address (remote), or who has them
// (handed). Implementations are safe for concurrent use.
type source interface {
	// current returns the keys to use now, nil if there are none, or none that may still
	// be used. It does not wait.
	current(now time.Time) *keySet
	// isAwaited tells whether nobody knows yet which keys there are, because the first
	// look for them has not ended. It does not wait.
	isAwaited() bool
	// fetchAgain looks anew for keys, if there is anywhere to look. It may wait. An error
	// means that it could not look, so that it is not known which keys there are.
	fetchAgain(ctx context.Context) error
}

// keySet is the keys of an issuer at one time. It is never changed once others can see
// it.
type keySet struct {
	keys       []verifying // no two have the same id, unless they have none
	refused    []string    // of which keys were refused, and why; safe to show to operators
	generation uint64      // differs when the keys differ, within one source
	digest     [32]byte    // SHA-256 of the text that it was read from; zero: it was not read from a text
	fetched    time.Time   // when it was asked for; zero: it was not fetched
	until      time.Time   // when it may no longer be used; only remote looks at it
}

// verifying is one public key or secret with the algorithms that it serves.
type verifying struct {
	id          string // as in Key
	public      crypto.PublicKey
	algorithms  []string
	fingerprint fingerprint
}

// newVerifying returns a key ready for use, or says why it serves no algorithm.
func newVerifying(id string, public crypto.PublicKey) (verifying, error) {
	served, err := algorithms(public)
	if err != nil {
		return verifying{}, err
	}
	return verifying{id: id, public: public, algorithms: served, fingerprint: fingerprintOf(public)}, nil
}

// find returns the keys that go by that id and serve the algorithm. known tells whether
// any key goes by that id, whatever it serves. A nil set has no keys.
func (s *keySet) find(id, algorithm string) (keys []verifying, known bool) {
	if s == nil {
		return nil, false
	}
	for _, key := range s.keys {
		if !s.names(&key, id) {
			continue
		}
		known = true
		if slices.Contains(key.algorithms, algorithm) {
			keys = append(keys, key)
		}
	}
	return keys, known
}

// holds tells whether find would return the key with that fingerprint. It allocates
// nothing, because it is asked for every open stream whenever lists have changed.
func (s *keySet) holds(of fingerprint, id, algorithm string) bool {
	for i := range s.keys {
		key := &s.keys[i]
		if key.fingerprint == of && s.names(key, id) && slices.Contains(key.algorithms, algorithm) {
			return true
		}
	}
	return false
}

// names tells whether a key of the set goes by an id. A key without one goes by any if it
// is the only key.
func (s *keySet) names(key *verifying, id string) bool {
	return key.id == id || key.id == "" && len(s.keys) == 1
}

// refuse notes that a key with that id was refused.
func (s *keySet) refuse(id, why string) {
	name := "a key without kid"
	if id != "" {
		name = fmt.Sprintf("key %q", id)
	}
	s.refused = append(s.refused, name+": "+why)
}

// unite makes one key of all that have the same id and are the same key, as issuers write
// it that name one algorithm in each: it serves all of these. Different keys of one id
// are refused, every one of them. An id is how a token says which key is meant, and
// whoever can add a key to a set must not be able to speak for one that is there. RFC
// 7517 section 4.5 allows it for keys of different types; no issuer is known that needs
// it.
func (s *keySet) unite() {
	var united []verifying
	twice := make(map[string]bool)
	for _, key := range s.keys {
		same := func(k verifying) bool { return k.id == key.id && k.fingerprint == key.fingerprint }
		other := func(k verifying) bool { return k.id == key.id && k.id != "" }
		if i := slices.IndexFunc(united, same); i >= 0 {
			united[i].algorithms = joined(united[i].algorithms, key.algorithms)
			continue
		}
		if slices.ContainsFunc(united, other) {
			twice[key.id] = true
		}
		united = append(united, key)
	}
	s.keys = slices.DeleteFunc(united, func(k verifying) bool { return twice[k.id] })
	for _, id := range slices.Sorted(maps.Keys(twice)) {
		s.refuse(id, "different keys of that kid; none of them is used")
	}
}

// joined returns the texts of both lists, each once.
func joined(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// refuseMixture refuses the shared secrets of a set that also has public keys. A set is
// either given to others or kept from them, so one of the two is at the wrong place; and
// a secret where public keys are expected is how an attacker would begin who wants a
// public key to be taken for one.
func (s *keySet) refuseMixture() {
	isSecret := func(k verifying) bool { _, is := k.public.([]byte); return is }
	isPublic := func(k verifying) bool { return !isSecret(k) }
	if !slices.ContainsFunc(s.keys, isSecret) || !slices.ContainsFunc(s.keys, isPublic) {
		return
	}
	for _, key := range s.keys {
		if isSecret(key) {
			s.refuse(key.id, "a shared secret in one set with public keys")
		}
	}
	s.keys = slices.DeleteFunc(s.keys, isSecret)
}

// check returns an error if the set costs too much to use.
func (s *keySet) check() error {
	if len(s.keys) > maxKeys {
		return fmt.Errorf("more than %d keys", maxKeys)
	}
	nameless := 0
	for _, key := range s.keys {
		if key.id == "" {
			nameless++
		}
	}
	if nameless > maxNameless {
		return fmt.Errorf("more than %d keys without a name", maxNameless)
	}
	return nil
}

// whole returns an error that names all keys which were refused, nil if none was. The
// operator's own file is refused as a whole: then it is mended before anything depends on
// it.
func (s *keySet) whole() error {
	if len(s.refused) == 0 {
		return nil
	}
	return errors.New(strings.Join(s.refused, "; "))
}

// serves tells whether a key of the set serves one of the algorithms.
func (s *keySet) serves(algorithms []string) bool {
	return slices.ContainsFunc(s.keys, func(key verifying) bool { return key.serves(algorithms) })
}

// serves tells whether the key serves one of the algorithms.
func (k verifying) serves(algorithms []string) bool {
	return slices.ContainsFunc(algorithms,
		func(name string) bool { return slices.Contains(k.algorithms, name) })
}

// handed is a source whose keys are at hand, those of the config or of this gateway
// itself: none is awaited, and there is nowhere else to look.
type handed func() *keySet

var _ source = handed(nil)

func (h handed) current(time.Time) *keySet      { return h() }
func (handed) isAwaited() bool                  { return false }
func (handed) fetchAgain(context.Context) error { return nil }

// fixed returns a source of keys that do not change while the gateway has this config.
func fixed(set *keySet) source { return handed(func() *keySet { return set }) }

// newFixed returns a source of keys. Each of them must serve one of the allowed
// algorithms, since a key that the operator gives and that is never used is a mistake.
func newFixed(keys []Key, allowed []string) (source, error) {
	set := &keySet{}
	for i, key := range keys {
		added, err := newVerifying(key.ID, key.Public)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		if key.Private != nil && !pairs(key) {
			return nil, fmt.Errorf("key %d: its private part belongs to another key", i+1)
		}
		if !added.serves(allowed) {
			return nil, fmt.Errorf("key %d: serves none of the allowed algorithms", i+1)
		}
		set.keys = append(set.keys, added)
	}
	set.unite()
	set.refuseMixture()
	if err := cmp.Or(set.check(), set.whole()); err != nil {
		return nil, err
	}
	return fixed(set), nil
}

// pairs tells whether the two parts of a key belong together.
func pairs(key Key) bool {
	switch private := key.Private.(type) {
	case []byte:
		public, ok := key.Public.([]byte)
		return ok && bytes.Equal(private, public)
	case crypto.Signer:
		public, ok := private.Public().(interface{ Equal(crypto.PublicKey) bool })
		return ok && public.Equal(key.Public)
	}
	return false
}

// PublicKeys verify who signed a token that is none for a Verifier, such as an ID token
// of a provider. What the token says is left to whoever asks. They are never changed.
// Those of this gateway itself serve a Verifier, too: see Own.
type PublicKeys struct{ set *keySet }

// NewPublicKeys returns the public parts of keys. Those that serve no algorithm are left
// out. generation differs from that of other keys of the same issuer.
func NewPublicKeys(generation uint64, keys ...Key) *PublicKeys {
	set := &keySet{generation: generation}
	for _, key := range keys {
		if added, err := newVerifying(key.ID, key.Public); err == nil {
			set.keys = append(set.keys, added)
		}
	}
	set.unite()
	return &PublicKeys{set}
}

// fingerprint is a digest that no other key or secret has.
type fingerprint [sha256.Size]byte

// fingerprintOf returns the fingerprint of a key that algorithms has found to be sound.
func fingerprintOf(public crypto.PublicKey) fingerprint {
	if secret, ok := public.([]byte); ok {
		return sha256.Sum256(append([]byte("secret "), secret...))
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		panic("auth: a sound key that cannot be written: " + err.Error())
	}
	return sha256.Sum256(der)
}
