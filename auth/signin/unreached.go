package signin

import (
	"context"
	"sync"
	"time"
)

// Reacher is a Provider that can be asked whether it answers. It is asked for with a type
// assertion.
type Reacher interface {
	// Reach returns why the provider cannot be reached, or is of no use, nil if it can.
	Reach(ctx context.Context) error
}

// Unreached is a provider that does not answer.
type Unreached struct {
	Provider string // its name
	Since    time.Time
	Err      error // why, when it was asked last
}

// reach knows which providers answer.
type reach struct {
	mu    sync.Mutex            // guards the field below
	state map[string]*Unreached // by name; nil of a name: it answers
}

// unreached returns the providers that cannot be reached now, in no order.
func (r *reach) unreached() []Unreached {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Unreached
	for _, u := range r.state {
		if u != nil {
			all = append(all, *u)
		}
	}
	return all
}
