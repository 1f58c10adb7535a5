package signin

import (
	"maps"
	"sync/atomic"
	"time"
)

// ended has the families that have ended and of which access tokens may still be about.
// It is safe for concurrent use, and cheap to ask.
type ended struct {
	// when each is forgotten; replaced whole; nil until the store was read for the first
	// time
	families atomic.Pointer[map[string]time.Time]
	polled   time.Time // how far the store was read; only Run has it
}

// has tells whether a family has ended.
func (e *ended) has(family string) bool {
	known := e.families.Load()
	if known == nil {
		return false
	}
	_, is := (*known)[family]
	return is
}

// add notes families that have ended, and tells whether any was not known. It forgets
// those whose tokens have all expired.
func (e *ended) add(families map[string]time.Time, now time.Time) bool {
	for {
		before := e.families.Load()
		next := map[string]time.Time{}
		if before != nil {
			maps.Copy(next, *before)
		}
		maps.DeleteFunc(next, func(_ string, until time.Time) bool { return now.After(until) })
		remaining := len(next)
		maps.Copy(next, families)
		if e.families.CompareAndSwap(before, &next) {
			return len(next) > remaining
		}
	}
}
