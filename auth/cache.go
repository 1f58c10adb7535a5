package auth

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// digest is the SHA-256 of a whole token, signature included. It stands for the token in
// the cache, which so holds no token.
type digest = [32]byte

// digestOf returns the digest of a token.
func digestOf(token string) digest {
	var stack [2048]byte // spares most tokens an allocation
	return sha256.Sum256(append(stack[:0], token...))
}

// entry is a token that was verified, and what must still be true for it to hold. It is
// never changed.
type entry struct {
	principal  Principal
	until      time.Time // when the token expires, leeway included
	keys       source    // of the token's issuer
	generation uint64    // of the key set that verified the token
	keepToken  bool      // the token goes on with the principal
}

// holds tells whether the token would be verified again now: it has not expired, and its
// issuer has the same keys as then. So a key that the issuer takes back stops working
// here as well, as soon as that is known.
func (e *entry) holds(now time.Time) bool {
	if !now.Before(e.until) {
		return false
	}
	set := e.keys.current(now)
	return set != nil && set.generation == e.generation
}

// cache remembers verified tokens, because to verify a signature costs much more than to
// look one up. It is bounded, and has two halves. A token that is asked for goes into the
// young one. When that is full it becomes the old one, and the one that was old is
// forgotten with all that was not asked for since. It is safe for concurrent use.
type cache struct {
	half int // entries in each half

	mu         sync.Mutex // guards the fields below
	young, old map[digest]*entry
}

// newCache returns a cache of at most size entries. The least it can hold is two, one in
// each half.
func newCache(size int) *cache {
	return &cache{half: max(1, size/2), young: make(map[digest]*entry)}
}

// get returns the entry of a token, nil if the token is not remembered. The caller asks
// the entry whether it still holds.
func (c *cache) get(d digest) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.young[d]; e != nil {
		return e
	}
	e := c.old[d]
	if e != nil {
		c.addLocked(d, e)
	}
	return e
}

// put remembers a verified token.
func (c *cache) put(d digest, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addLocked(d, e)
}

// addLocked adds an entry to the young half.
func (c *cache) addLocked(d digest, e *entry) {
	if _, there := c.young[d]; !there && len(c.young) >= c.half {
		c.old, c.young = c.young, make(map[digest]*entry)
	}
	c.young[d] = e
}

// carrying returns the principal of a token that was verified and has that digest, with
// the token if it is to go on.
func (e *entry) carrying(token string, d digest) Principal {
	p := e.principal
	if e.keepToken {
		p.token = &carriedToken{d, func(context.Context) (string, error) { return token, nil }}
	}
	return p
}
