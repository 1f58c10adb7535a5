package auth

import (
	"context"
	"crypto/sha256"
	"strconv"
	"testing"
	"time"
)

// TestCacheIsBounded puts in ten times what fits and counts what is there.
func TestCacheIsBounded(t *testing.T) {
	for _, size := range []int{2, 10, 1000, 1024, 10_000} {
		c := newCache(size)
		for i := range 10 * size {
			c.put(sha256.Sum256([]byte(strconv.Itoa(i))), &entry{})
		}
		if held := len(c.young) + len(c.old); held > size || held < size/4 {
			t.Errorf("size %d: holds %d", size, held)
		}
	}
}

// TestCacheKeepsWhatIsAskedFor shows that a token in use survives any number of others.
func TestCacheKeepsWhatIsAskedFor(t *testing.T) {
	c := newCache(100)
	busy := sha256.Sum256([]byte("busy"))
	c.put(busy, &entry{})
	for i := range 10_000 {
		c.put(sha256.Sum256([]byte(strconv.Itoa(i))), &entry{})
		if i%40 == 0 && c.get(busy) == nil {
			t.Fatalf("forgotten after %d others", i)
		}
	}
}

// changing is a source whose set can be replaced.
type changing struct{ set *keySet }

func (c *changing) current(time.Time) *keySet        { return c.set }
func (c *changing) isAwaited() bool                  { return false }
func (c *changing) fetchAgain(context.Context) error { return nil }

func TestEntryHolds(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	keys := &changing{set: &keySet{generation: 7}}
	e := &entry{until: now.Add(time.Minute), keys: keys, generation: 7}
	if !e.holds(now) || !e.holds(now.Add(59*time.Second)) {
		t.Error("does not hold before it expires")
	}
	if e.holds(now.Add(time.Minute)) {
		t.Error("holds when it has expired")
	}
	keys.set = &keySet{generation: 8}
	if e.holds(now) {
		t.Error("holds after the keys changed")
	}
	keys.set = nil
	if e.holds(now) {
		t.Error("holds without keys")
	}
}
