package directory

import (
	"cmp"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// recent remembers something of sessions: of those of which it was noted last, at least
// so many as half says, and at most twice as many. It is safe for concurrent use.
type recent[V comparable] struct {
	half int

	mu          sync.Mutex // guards the fields below
	now, before map[ticket.Key]V
}

// of returns what was noted of a session, the zero V if nothing was, or it is forgotten.
func (r *recent[V]) of(key ticket.Key) V {
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(r.now[key], r.before[key])
}

// set notes something of a session, or with the zero V that nothing is known.
func (r *recent[V]) set(key ticket.Key, one V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.before, key)
	delete(r.now, key)
	var nothing V
	if one == nothing {
		return
	}
	if r.now == nil || len(r.now) == r.half {
		r.now, r.before = make(map[ticket.Key]V), r.now
	}
	r.now[key] = one
}
