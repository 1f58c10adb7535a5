package ratelimit

import "sync"

// InFlight bounds how many things happen at once, per key. It is safe for concurrent use.
type InFlight struct {
	mu    sync.Mutex // guards the field below
	taken map[string]int
}

// NewInFlight returns an empty InFlight.
func NewInFlight() *InFlight { return &InFlight{taken: make(map[string]int)} }

// Enter takes a place under key if fewer than limit are taken. leave gives it back and must be called once; it is nil
// when ok is false. A key without places taken costs no memory.
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

// Taken returns how many places are taken under key.
func (f *InFlight) Taken(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken[key]
}

func (f *InFlight) leave(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.taken[key]--; f.taken[key] <= 0 {
		delete(f.taken, key)
	}
}
