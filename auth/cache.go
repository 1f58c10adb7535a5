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
	// gives what goes on in its place; nil: nothing does
	tokenOf func(ctx context.Context, family string) (string, error)
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

const shardCount = 16

// cache remembers verified tokens, because to verify a signature costs much more than to
// look one up. It is bounded, and forgets first those that were not asked for lately. It
// is safe for concurrent use.
type cache struct {
	shards []shard
	half   int // entries in each half of a shard
}

// shard is a part of the cache, with a mutex of its own so that requests seldom wait for
// each other. It has two halves. A token that is asked for goes into the young one. When
// that is full it becomes the old one, and the one that was old is forgotten with all
// that was not asked for since.
type shard struct {
	mu         sync.Mutex // guards the fields below
	young, old map[digest]*entry
	// fills a cache line of 64 bytes, or cores at work on neighbouring shards would slow
	// each other
	_ [40]byte
}

// newCache returns a cache of at most size entries. The least it can hold is two, one in
// each half.
func newCache(size int) *cache {
	shards := 1
	if size >= 1024 {
		shards = shardCount
	}
	c := &cache{shards: make([]shard, shards), half: max(1, size/shards/2)}
	for i := range c.shards {
		c.shards[i].young = make(map[digest]*entry)
	}
	return c
}

// shard returns the part of the cache that a token is in.
func (c *cache) shard(d *digest) *shard {
	return &c.shards[int(d[0])%len(c.shards)]
}

// get returns the entry of a token, nil if the token is not remembered. The caller asks
// the entry whether it still holds.
func (c *cache) get(d digest) *entry {
	s := c.shard(&d)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.young[d]; e != nil {
		return e
	}
	e := s.old[d]
	if e != nil {
		s.addLocked(d, e, c.half)
	}
	return e
}

// put remembers a verified token.
func (c *cache) put(d digest, e *entry) {
	s := c.shard(&d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addLocked(d, e, c.half)
}

// addLocked adds an entry to the young half, which may have half entries.
func (s *shard) addLocked(d digest, e *entry, half int) {
	if _, there := s.young[d]; !there && len(s.young) >= half {
		s.old, s.young = s.young, make(map[digest]*entry, half)
	}
	s.young[d] = e
}

// carrying returns the principal of a token that was verified and has that digest, with
// the token if it is to go on.
func (e *entry) carrying(token string, d digest) Principal {
	p := e.principal
	if e.keepToken {
		p.token = &carriedToken{text: token, digest: d}
	} else if family := p.proof.family; e.tokenOf != nil && family != "" {
		p.token = &carriedToken{digest: digestOf("family\x00" + family), family: family, of: e.tokenOf}
	}
	return p
}
