// Package batch answers: what goes together? Values come for a key, such as notices for a
// replica, and whatever comes while others of that key are on their way goes with the
// next batch. A value that is alone waits for nothing. The package knows neither what a
// value is nor what is done with it.
//
//	Add, Add, Add ──▶ waiting, by key ──▶ Do, for one batch of a key at a time
package batch

import (
	"context"
	"sync"
)

// Queue hands values on in batches. Its fields are set before it is used, all of them. It
// is safe for concurrent use.
type Queue[K, V comparable] struct {
	// Do takes the next values for a key, in the order in which they came, each once. It
	// is called for several keys at once. A panic in it is the caller's to catch.
	Do   func(ctx context.Context, key K, values []V)
	Most int // values of one batch
	// Go runs a function on a goroutine of its own, of which there is one for each key
	// that has values. It need not run it when the process ends.
	Go func(run func(ctx context.Context))

	mu   sync.Mutex      // guards the field below
	keys map[K]*queue[V] // those of which a batch is on its way, or about to be
}

// queue is what waits for one key.
type queue[V comparable] struct {
	order []V
	has   map[V]bool
}

// Add has a value handed on, once for all who add it until then. It does not wait.
func (q *Queue[K, V]) Add(key K, value V) {
	if q.enter(key, value) {
		q.Go(func(ctx context.Context) {
			for values := q.next(key); len(values) > 0; values = q.next(key) {
				q.Do(ctx, key, values)
			}
		})
	}
}

// enter has a value wait. It is true if nobody hands on those of its key.
func (q *Queue[K, V]) enter(key K, value V) (first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.keys[key]
	if first = waiting == nil; first {
		waiting = &queue[V]{has: make(map[V]bool)}
		if q.keys == nil {
			q.keys = make(map[K]*queue[V])
		}
		q.keys[key] = waiting
	}
	if !waiting.has[value] {
		waiting.has[value] = true
		waiting.order = append(waiting.order, value)
	}
	return first
}

// next takes out the next batch. If that is empty, nobody hands on those of the key.
func (q *Queue[K, V]) next(key K) []V {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.keys[key]
	n := min(len(waiting.order), q.Most)
	if n == 0 {
		delete(q.keys, key)
	}
	values := waiting.order[:n]
	waiting.order = waiting.order[n:]
	for _, value := range values {
		delete(waiting.has, value)
	}
	return values
}
