package server

import (
	"sync/atomic"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// How long a client waits for the answer that it is refused, and how many of one kind
// wait at once.
const (
	lingerTime   = 100 * time.Millisecond
	maxLingering = 1024
)

// lingering makes clients of one kind wait that send more requests than they may. One
// that does not heed the refusal sends the next request as soon as it has the answer, so
// without this it would keep a processor busy with refusals. Who waits must hold no place
// among the requests in work. A body that came without a length was read before its cost
// was known, and stays leased meanwhile. The zero lingering is ready to use; it is safe
// for concurrent use, and must not be copied.
type lingering struct{ waiting atomic.Int64 }

// wait returns after lingerTime, or when the client leaves. Where many wait already, it
// returns at once, and the answer is the last one on its connection: to connect again
// makes up for the time.
func (l *lingering) wait(x *exchange) {
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > maxLingering {
		x.Header().Set("Connection", "close")
		return
	}
	select {
	case <-time.After(lingerTime):
	case <-x.context().Done():
	}
}

// linger makes a client wait that was refused because it sends more than its tenant or
// user may.
func (s *Server) linger(x *exchange, err error) {
	if toldOf(err).Code == mcp.CodeLimited {
		s.rest(&x.held)
		s.beyond.wait(x)
	}
}
