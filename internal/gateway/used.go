package gateway

import (
	"sync"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/evict"
)

// stateLife is how long a requestState is valid.
const stateLife = 10 * time.Minute

// maxUsed is how many used states are remembered at most in each of two spans of time.
const maxUsed = 1 << 16

// used remembers which states were used, for as long as they are valid. It has a bound: a
// state for which there is no room counts as used, and then costs what a call costs. It
// is safe for concurrent use.
type used struct {
	mu    sync.Mutex // guards the field below
	spans evict.Spans[nonce, struct{}]
}

type nonce [16]byte

func newUsed() *used { return &used{spans: evict.Spans[nonce, struct{}]{Length: stateLife}} }

// first tells whether this is the first use of the state with that nonce, and remembers
// it.
func (u *used) first(n nonce, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.spans.Turn(now)
	_, known := u.spans.Now[n]
	_, knew := u.spans.Previous[n]
	if known || knew || len(u.spans.Now) >= maxUsed {
		return false
	}
	u.spans.Now[n] = struct{}{}
	return true
}
