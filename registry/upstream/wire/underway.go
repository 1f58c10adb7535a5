package wire

import (
	"context"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// underway are the requests of one session over HTTP that wait for their answers and want to be told of their progress. A
// server may tell it on another stream of the session than theirs, as mcp-go does on whichever is free; the progress token
// says whose it is. The zero value is empty. It is safe for concurrent use.
type underway struct {
	mu  sync.Mutex // guards the field below
	all map[mcp.ID]func(*mcp.Message)
}

// add makes a request known until end is called, after which its notify is not called any more.
func (u *underway) add(ctx context.Context, out *Request) (end func()) {
	out.begin()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = map[mcp.ID]func(*mcp.Message){}
	}
	u.all[out.ID] = func(m *mcp.Message) { out.deliver(ctx, m) }
	return func() {
		u.mu.Lock()
		delete(u.all, out.ID)
		u.mu.Unlock()
		out.finish()
	}
}

// tell gives a notification to the request that it names. It returns false when there is none.
func (u *underway) tell(m *mcp.Message) bool {
	if m.Method != mcp.NotifyProgress {
		return false
	}
	u.mu.Lock()
	deliver := u.all[owner(m)]
	u.mu.Unlock()
	if deliver == nil {
		return false
	}
	deliver(m)
	return true
}
