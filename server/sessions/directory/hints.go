package directory

import (
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/evict"
	"github.com/drawbridge-mcp/drawbridge/internal/replica"
	"github.com/drawbridge-mcp/drawbridge/server/ticket"
)

// hints are where sessions were found that their openers do not lead. It is safe for
// concurrent use.
type hints struct {
	mu    sync.Mutex // guards the fields below
	known map[ticket.Key]replica.ID
}

// maxHints is how many there are. When there are more, some are forgotten: to look costs
// one round trip.
const maxHints = 10_000

func (h *hints) of(key ticket.Key) replica.ID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known[key]
}

// set notes where a session is, or with "" that this is not known.
func (h *hints) set(key ticket.Key, at replica.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at == "" {
		delete(h.known, key)
		return
	}
	if h.known == nil {
		h.known = make(map[ticket.Key]replica.ID)
	}
	if len(h.known) >= maxHints {
		evict.One(h.known, 1, func(ticket.Key, replica.ID) (worth float64, may bool) { return 0, true })
	}
	h.known[key] = at
}
