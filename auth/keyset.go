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
	maxKeys     = 50 // in a set
	maxSameName = 4  // of one name: each of them is tried
)

// source is where an issuer's keys come from: a file or an address.
type source interface {
	// current returns the keys to use now, nil when there are none that may still be used.
	current(now time.Time) *keySet
	// refresh looks for a key of that name anew, if there is anywhere to look. An error means that it could not look.
	refresh(ctx context.Context, keyID string) error
}

// keySet are the keys of an issuer at one time. It is never changed.
type keySet struct {
	keys       []verifying
	generation uint64    // differs when the keys differ, within one source
	digest     [32]byte  // of the text it was read from
	until      time.Time // no longer used after it; zero: used forever
}

// verifying is one public key or secret with the algorithms it serves.
type verifying struct {
	id         string
	public     crypto.PublicKey
	algorithms []string
}

// find returns the keys that go by that name and serve the algorithm, and whether any key goes by that name.
func (s *keySet) find(id, algorithm string) (keys []crypto.PublicKey, known bool) {
	if s == nil {
		return nil, false
	}
	for _, key := range s.keys {
		if key.id != id && (key.id != "" || len(s.keys) > 1) {
			continue
		}
		known = true
		if slices.Contains(key.algorithms, algorithm) {
			keys = append(keys, key.public)
		}
	}
	return keys, known
}

// check returns an error when the set costs too much to use.
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

// serves reports whether a key of the set serves one of the algorithms.
func (s *keySet) serves(algorithms []string) bool {
	return slices.ContainsFunc(s.keys, func(key verifying) bool { return key.serves(algorithms) })
}

func (k verifying) serves(algorithms []string) bool {
	return slices.ContainsFunc(algorithms, func(name string) bool { return slices.Contains(k.algorithms, name) })
}

// fixed is a source of keys that do not change.
type fixed struct{ set *keySet }

var _ source = fixed{}

func (f fixed) current(time.Time) *keySet             { return f.set }
func (f fixed) refresh(context.Context, string) error { return nil }

// newFixed makes a source of keys. All must be fit for one of the algorithms.
func newFixed(keys []Key, allowed []string) (source, error) {
	set := &keySet{}
	for i, key := range keys {
		served, err := algorithms(key.Public)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		if key.Private != nil && !pairs(key) {
			return nil, fmt.Errorf("key %d: its private part belongs to another key", i+1)
		}
		added := verifying{id: key.ID, public: key.Public, algorithms: served}
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

// newFixedSet makes a source of the key set in a file. At least one key must be fit for one of the algorithms.
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

// pairs reports whether the two parts of a key belong together.
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
