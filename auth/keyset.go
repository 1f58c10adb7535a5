package auth

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	maxKeys     = 50 // of a set
	maxSameName = 4  // of one key id; a token that names it is tried with each of them
)

// source is where the keys of an issuer come from: the config (fixed) or an address (remote). Implementations are safe
// for concurrent use.
type source interface {
	// current returns the keys to use now, nil if there are none, or none that may still be used. It does not wait.
	current(now time.Time) *keySet
	// lookFor looks anew for a key with that id, if there is anywhere to look. It may wait. An error means that it
	// could not look, so that it is not known whether there is such a key.
	lookFor(ctx context.Context, keyID string) error
}

// keySet is the keys of an issuer at one time. It is never changed once others can see it.
type keySet struct {
	keys       []verifying
	generation uint64    // differs when the keys differ, within one source
	digest     [32]byte  // SHA-256 of the text that it was read from; zero: it was not read from a text
	fetched    time.Time // when it was asked for; zero: it was not fetched
	until      time.Time // when it may no longer be used; only remote looks at it
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

// find returns the keys that go by that id and serve the algorithm. known tells whether any key goes by that id,
// whatever it serves. A nil set has no keys.
func (s *keySet) find(id, algorithm string) (keys []verifying, known bool) {
	if s == nil {
		return nil, false
	}
	for _, key := range s.keys {
		if key.id != id && (key.id != "" || len(s.keys) > 1) {
			continue
		}
		known = true
		if slices.Contains(key.algorithms, algorithm) {
			keys = append(keys, key)
		}
	}
	return keys, known
}

// check returns an error if the set costs too much to use.
func (s *keySet) check() error {
	if len(s.keys) > maxKeys {
		return fmt.Errorf("more than %d keys", maxKeys)
	}
	names := make(map[string]int, len(s.keys))
	for _, key := range s.keys {
		if names[key.id]++; names[key.id] > maxSameName {
			return fmt.Errorf("more than %d keys of one name, or without", maxSameName)
		}
	}
	return nil
}

// serves tells whether a key of the set serves one of the algorithms.
func (s *keySet) serves(algorithms []string) bool {
	return slices.ContainsFunc(s.keys, func(key verifying) bool { return key.serves(algorithms) })
}

// serves tells whether the key serves one of the algorithms.
func (k verifying) serves(algorithms []string) bool {
	return slices.ContainsFunc(algorithms, func(name string) bool { return slices.Contains(k.algorithms, name) })
}

// fixed is a source of keys that do not change while the gateway has this config.
type fixed struct{ set *keySet }

var _ source = fixed{}

func (f fixed) current(time.Time) *keySet             { return f.set }
func (f fixed) lookFor(context.Context, string) error { return nil }

// newFixed returns a source of keys. Each of them must serve one of the allowed algorithms, since a key that the
// operator gives and that is never used is a mistake.
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
	if err := set.check(); err != nil {
		return nil, err
	}
	return fixed{set}, nil
}

// newFixedSet returns a source of the key set in a file. At least one key must serve one of the allowed algorithms: the
// set is made by the issuer and may have keys for other purposes.
func newFixedSet(data []byte, allowed []string) (source, error) {
	set, err := parseSet(data, true)
	if err != nil {
		return nil, fmt.Errorf("key set: %w", err)
	}
	if !set.serves(allowed) {
		return nil, errors.New("key set: no key in it serves one of the allowed algorithms")
	}
	return fixed{set}, nil
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
