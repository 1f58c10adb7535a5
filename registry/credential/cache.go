package credential

import (
	"container/list"
	"crypto/sha256"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/evict"
)

// maxCached bounds the callers of one server and kind for whom something is kept. Whoever
// was not seen for longest is forgotten, which costs a signature or an exchange more.
const maxCached = 8192

// CacheKey is where something of a caller is kept: for whom it is, and of which token it
// was made. Two tokens of one owner may allow different things, so neither gets what was
// made of the other. Users of two issuers are never the same, whatever their subjects.
type CacheKey struct {
	owner auth.Owner
	token [sha256.Size]byte // zero: it is made of no token
}

// Cache keeps things of callers, a bounded number. It is safe for concurrent use.
type Cache[T any] struct {
	mu     sync.Mutex // guards the fields below
	all    map[CacheKey]*list.Element
	latest map[auth.Owner]*list.Element // of each owner, the one that was asked for last
	order  *list.List                   // of *cacheEntry[T], the one asked for last in front
	over   func(*T) bool                // as NewCache has it
}

type cacheEntry[T any] struct {
	at    CacheKey
	value *T
}

// entryOf returns what an element of the list has.
func entryOf[T any](element *list.Element) *cacheEntry[T] {
	return element.Value.(*cacheEntry[T]) //nolint:forcetypeassert // nothing else is in the list
}

// valueOf returns the value in an element, nil if that is nil.
func valueOf[T any](element *list.Element) *T {
	if element == nil {
		return nil
	}
	return entryOf[T](element).value
}

// sampleSize is how many things are looked at for what is over when another one is kept.
const sampleSize = 8

// NewCache returns a cache that is empty. over tells whether nobody has a use for
// something any more; it must be quick. When something new is kept, those of a sample are
// forgotten that are over. Else each cache would fill up, however few callers there are:
// their tokens are others every hour.
func NewCache[T any](over func(*T) bool) *Cache[T] {
	return &Cache[T]{
		all: map[CacheKey]*list.Element{}, latest: map[auth.Owner]*list.Element{}, order: list.New(),
		over: over,
	}
}

// At returns what is kept at a place, which fresh makes if there is nothing.
func (c *Cache[T]) At(at CacheKey, fresh func() *T) *T {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.all[at]
	if element == nil {
		element = c.order.PushFront(&cacheEntry[T]{at, fresh()})
		c.all[at] = element
		if c.order.Len() > maxCached {
			c.forgetLocked(c.order.Back())
		}
		c.forgetOverLocked()
	}
	c.order.MoveToFront(element)
	c.latest[at.owner] = element
	return valueOf[T](element)
}

// Peek returns what is kept at a place, nil if there is nothing.
func (c *Cache[T]) Peek(at CacheKey) *T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return valueOf[T](c.all[at])
}

// of returns what was asked for last of an owner, nil if nothing is kept.
func (c *Cache[T]) of(owner auth.Owner) *T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return valueOf[T](c.latest[owner])
}

// forgetOverLocked forgets what is over of a random sample: in the order of use, one that
// lasts and nobody asks for would stand before all others.
func (c *Cache[T]) forgetOverLocked() {
	evict.One(c.all, sampleSize, func(_ CacheKey, some *list.Element) (worth float64, may bool) {
		if c.over(valueOf[T](some)) {
			c.forgetLocked(some) // where else it stands, too
			return 0, false
		}
		return 1, false
	})
}

func (c *Cache[T]) forgetLocked(element *list.Element) {
	at := entryOf[T](element).at
	c.order.Remove(element)
	delete(c.all, at)
	if c.latest[at.owner] == element {
		delete(c.latest, at.owner)
	}
}
