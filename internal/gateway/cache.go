package gateway

import (
	"math"
	"sync"
	"sync/atomic"
)

// cache keeps what is made of each key, so that it is made once. It lasts as long as what
// it belongs to, or until it is forgotten. The zero cache is empty. It is safe for
// concurrent use.
type cache[K comparable, V any] struct {
	known sync.Map     // K → V
	made  atomic.Int64 // how many were, also those that are not kept any more
}

// unbounded is for a cache whose keys are few, or belong to something that lives anyway.
const unbounded = math.MaxInt64

// get returns what is kept of key or else what makes returns, which is kept from then on.
// When so many are kept as may be, it begins anew.
func (c *cache[K, V]) get(key K, most int64, makes func() V) V {
	if known, ok := c.known.Load(key); ok {
		return known.(V)
	}
	if c.made.Add(1)%most == 0 {
		c.known.Clear()
	}
	kept, _ := c.known.LoadOrStore(key, makes())
	return kept.(V)
}

// forget drops everything.
func (c *cache[K, V]) forget() { c.known.Clear() }
