package server

import (
	"sync/atomic"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
)

// held is what a request in work takes of what all requests share.
type held struct {
	slot *atomic.Int64 // counts it among the requests in work; nil: nothing does
	body share.Lease   // of the memory of its body
}

// release gives back what the request holds; further calls do nothing. It also drops what
// the message said, so that an idle stream does not keep it in memory.
func (x *exchange) release() {
	x.held.release()
	x.held, x.meta = held{}, mcp.Object{}
}

// releaseSlot gives back only the slot among the requests in work, when the request
// begins to wait for something slow. The memory of its body stays leased.
func (h *held) releaseSlot() {
	if h.slot != nil {
		h.slot.Add(-1)
		h.slot = nil
	}
}

// release gives back all of it.
func (h *held) release() {
	if h.slot != nil {
		h.slot.Add(-1)
	}
	h.body.Release()
}
