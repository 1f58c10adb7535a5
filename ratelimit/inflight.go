package ratelimit

import "sync"

// InFlight bounds how many things happen at the same time, for each key. It knows nothing of time: a place is taken
// until it is given back. It is safe for concurrent use.
type InFlight struct {
	mu    sync.Mutex     // guards the field below
	taken map[string]int // places by key; a key that has none is absent
}

// NewInFlight returns an empty InFlight.
func NewInFlight() *InFlight { return &InFlight{taken: make(map[string]int)} }

// Enter takes a place under key if fewer than limit are taken; with a limit of 0 none ever is. leave gives the place
// back. It must be called exactly once, since a second call would give back somebody else's place. If ok is false,
// leave is nil. A key of which no place is taken costs no memory, so the number of keys needs no bound of its own.
func (f *InFlight) Enter(key string, limit int) (leave func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.taken[key]
	if n >= limit {
		return nil, false
	}
	f.taken[key] = n + 1
	return func() { f.leave(key) }, true
}

// Taken returns how many places are taken under key. The number may have changed by the time it is read: use it for
// display, and Enter to decide.
func (f *InFlight) Taken(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken[key]
}

// leave gives back one place under key.
func (f *InFlight) leave(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.taken[key]--; f.taken[key] <= 0 {
		delete(f.taken, key)
	}
}
