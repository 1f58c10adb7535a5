package server

import (
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// How long a client waits for the answer that it is refused, and how many of one kind
// wait at once.
const (
	refusalDelay = 100 * time.Millisecond
	maxDelayed   = 1024
)

// delayer makes clients of one kind wait that send more requests than they may. One
// that does not heed the refusal sends the next request as soon as it has the answer, so
// without this it would keep a processor busy with refusals. Who waits must hold no slot
// among the requests in work. A body that came without a length was read before its cost
// was known, and stays leased meanwhile. The zero delayer is ready to use; it is safe
// for concurrent use, and must not be copied.
type delayer struct{ waiting atomic.Int64 }

// wait returns after refusalDelay, or when the client leaves. Where many wait already, it
// returns at once, and the answer is the last one on its connection: to connect again
// makes up for the time.
func (l *delayer) wait(x *exchange) {
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > maxDelayed {
		x.Header().Set("Connection", "close")
		return
	}
	select {
	case <-time.After(refusalDelay):
	case <-x.context().Done():
	}
}

// delayLimited makes a client wait that was refused because it sends more than its tenant
// or user may.
func (s *service) delayLimited(x *exchange, err error) {
	if toldOf(err).Code == mcp.CodeLimited {
		x.held.releaseSlot()
		s.overLimit.wait(x)
	}
}
