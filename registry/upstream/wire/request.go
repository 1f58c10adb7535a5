package wire

import (
	"context"
	"net/http"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/auth"
	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/share"
	"github.com/drawbridge-mcp/drawbridge/registry/credential"
)

// Caller is on whose behalf a request is made. Zero: on the link's own.
type Caller struct {
	For *auth.Principal // whose credential it carries; nil: the link's own
	// Trace is of the caller's request, for a server that is told who calls.
	Trace credential.Trace
}

// Request is one request on its way. Its fields are set before Exchange and not changed
// meanwhile. A request may be sent again after Exchange has returned. Hear and Ask must
// not block.
type Request struct {
	ID     mcp.ID
	Method string
	Body   []byte      // the whole message; shared with the transport until Exchange returns
	Header http.Header // of a request to a modern server; nil: the session's. Shared: do not modify
	Post   *dial.Post  // Header, prepared by HTTP.Prepare of the same link; nil: it was not

	Caller

	Notify func(context.Context, *mcp.Message) // takes its notifications; nil: they are dropped
	// replaces Notify on SSE and Child, in one order with questions
	Hear func(*mcp.Message)
	// takes its questions, or returns why not; nil: it can be asked none
	Ask func(*mcp.Message) *mcp.Error
	// log messages that do not say whose they are belong to this request
	Logs bool

	// Memory holds what has come of the answer, also when Exchange has returned it. nil:
	// the server does, while it comes.
	Memory *share.Reservation

	// SessionID is set by Exchange when the answer opened a session, also beside an
	// error.
	SessionID string

	// Unsent is set by Exchange over stdio when it fails before anything was written.
	Unsent bool

	telling  sync.Mutex // held while Notify runs; guards the field below
	finished bool
}

// deliver hands a notification on, one at a time, and none of a finished request.
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

// setFinished says whether the request is over: then no notification is handed on,
// because the caller may be gone. It waits for one that is just being handed on.
func (o *Request) setFinished(finished bool) {
	o.telling.Lock()
	defer o.telling.Unlock()
	o.finished = finished
}

// owner returns the id of the request that a notification belongs to, "" when it does not
// say. Progress tokens and subscription ids are the ids of requests.
func owner(m *mcp.Message) mcp.ID {
	if m.Method == mcp.NotifyProgress {
		return mcp.ID(m.Params.Value(mcp.MetaProgressToken))
	}
	return mcp.ID(m.Params.Object("_meta").Value(mcp.MetaSubscriptionID))
}

// underway are the requests of one HTTP session that wait for their answers and want
// notifications. A server may send the progress of a request on another stream than the
// request's own, as mcp-go does on whichever is free; the progress token says whose it
// is. It is safe for concurrent use.
type underway struct{ all sync.Map } // mcp.ID → func(*mcp.Message)

// add makes a request known until end is called. After that its Notify is not called any
// more.
func (u *underway) add(ctx context.Context, out *Request) (end func()) {
	out.setFinished(false) // it may be sent once more, because its session was forgotten
	u.all.Store(out.ID, func(m *mcp.Message) { out.deliver(ctx, m) })
	return func() {
		u.all.Delete(out.ID)
		out.setFinished(true)
	}
}

// tell gives a progress notification to the request that it names. It returns false when
// there is no such request.
func (u *underway) tell(m *mcp.Message) bool {
	if m.Method != mcp.NotifyProgress {
		return false
	}
	deliver, known := u.all.Load(owner(m))
	if known {
		deliver.(func(*mcp.Message))(m)
	}
	return known
}
