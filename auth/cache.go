package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// digest is the SHA-256 of a whole token, signature included.
type digest = [32]byte

func digestOf(token string) digest {
	var stack [2048]byte // spares most tokens an allocation
	return sha256.Sum256(append(stack[:0], token...))
}

// entry is a token that was verified. It is never changed.
type entry struct {
	principal  Principal
	until      time.Time // when the token expires, leeway included
	keys       source
	generation uint64 // of the key set that verified it
}

// holds reports whether the token would still be verified: it has not expired, and its issuer's keys are the same.
func (e *entry) holds(now time.Time) bool {
	if !now.Before(e.until) {
		return false
	}
	set := e.keys.current(now)
	return set != nil && set.generation == e.generation
}

const shardCount = 16

// cache remembers verified tokens. It holds no more than its size and forgets those first that were not asked for lately.
type cache struct {
	shards []shard
	half   int // entries in each half of a shard
}

// shard has two halves: when the young one is full it becomes the old one, and the old one is forgotten.
type shard struct {
	mu         sync.Mutex // guards the fields below
	young, old map[digest]*entry
	_          [40]byte // keeps neighbours out of one cache line
}

// newCache returns a cache of at most size entries; of two, if size is one.
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

func (c *cache) shard(d *digest) *shard {
	return &c.shards[int(d[0])%len(c.shards)]
}

// get returns the entry of a token, nil when it is not remembered.
func (c *cache) get(d digest) *entry {
	s := c.shard(&d)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.young[d]; e != nil {
		return e
	}
	e := s.old[d]
	if e != nil {
		s.add(d, e, c.half)
	}
	return e
}

// put remembers a verified token.
func (c *cache) put(d digest, e *entry) {
	s := c.shard(&d)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(d, e, c.half)
}

// add adds to the young half. The caller holds mu.
func (s *shard) add(d digest, e *entry, half int) {
	if _, there := s.young[d]; !there && len(s.young) >= half {
		s.old, s.young = s.young, make(map[digest]*entry, half)
	}
	s.young[d] = e
}
