package wire

import (
	"context"
	"net/http"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Request is one request on its way.
type Request struct {
	ID     mcp.ID
	Method string
	Body   []byte      // the whole message; shared with the transport until Exchange returns
	Header http.Header // of a request to a modern server, which says all about itself; nil: those of the session. Shared: do not modify

	Notify func(context.Context, *mcp.Message) // nil: notifications that belong to the request are dropped
	Hear   func(*mcp.Message)                  // takes notifications at once, so that they come in one order with questions; nil: Notify does
	Ask    func(*mcp.Message) *mcp.Error       // takes the questions that belong to the request, or says why not; nil: there are none
	Logs   bool                                // log messages are this request's where nothing says whose they are

	SessionID string // set by Exchange when the answer opened a session

	telling  sync.Mutex // held while Notify runs; guards the field below
	finished bool
}

// deliver hands on a notification that belongs to the request, one after the other and none after finish.
func (o *Request) deliver(ctx context.Context, m *mcp.Message) {
	if o.Notify == nil {
		return
	}
	o.telling.Lock()
	defer o.telling.Unlock()
	if !o.finished {
		o.Notify(ctx, m)
	}
}

// begin hands on notifications again: a request is sent once more when its session was forgotten.
func (o *Request) begin() {
	o.telling.Lock()
	defer o.telling.Unlock()
	o.finished = false
}

// finish waits for a notification that is being handed on, and hands on no other.
func (o *Request) finish() {
	o.telling.Lock()
	defer o.telling.Unlock()
	o.finished = true
}

// owns tells whether the notification belongs to this request: by its progress token or its subscription.
func (o *Request) owns(m *mcp.Message) bool { return owner(m) == o.ID }

// owner returns the id of the request that a notification belongs to, "" when it belongs to none.
func owner(m *mcp.Message) mcp.ID {
	if m.Method == mcp.NotifyProgress {
		return mcp.ID(m.Params.Value(mcp.MetaProgressToken))
	}
	return mcp.ID(m.Params.Object("_meta").Value(mcp.MetaSubscriptionID))
}

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
