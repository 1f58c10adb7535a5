package upstream

import (
	"context"
	"net/http"
	"sync"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// peer is one server in modern form, whatever its era and transport.
type peer interface {
	// prepare puts into i what calls about it need again and again.
	prepare(i *item)
	// page asks for one page of a list; a nil cursor asks for the first, and no nextCursor in the result is the end.
	page(ctx context.Context, method string, cursor mcp.RawJSON) (mcp.Object, error)
	call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error)
	// watch follows changes of the lists. It returns when ctx ends, when the connection is lost, or with nil when this
	// server tells nothing.
	watch(ctx context.Context) error
	// watchResource tells of changes of one resource until ctx ends or the connection is lost. live is called once, when
	// no later change goes unseen; neither it nor updated waits.
	watchResource(ctx context.Context, uri string, live func(), updated func(uri string)) error
	// alive asks for a proof of life.
	alive(ctx context.Context) error
	// close ends the connection and waits for all that belongs to it; polite says good-bye.
	close(ctx context.Context, polite bool)
}

var (
	_ peer = (*modern)(nil)
	_ peer = (*legacy)(nil)
)

// transport carries messages to one server, under either era.
type transport interface {
	// exchange sends a request and waits for its answer. Errors are *mcp.Error for an error the server answered,
	// *registry.UnavailableError, *registry.ProtocolError, *sessionError or what ctx ended with.
	exchange(ctx context.Context, out *outgoing) (mcp.Object, error)
	// send sends a notification and waits until it is accepted.
	send(ctx context.Context, body []byte) error
	// tell sends a notification or an answer in the background, or not at all when too many wait already.
	tell(ctx context.Context, body []byte)
	// begin tells what the handshake agreed on; all later messages belong to it.
	begin(sessionID, revision string)
	// follow receives what the server sends on its own until ctx ends or the connection is lost; nil when it cannot.
	follow(ctx context.Context) error
	// streams tells whether each exchange has a stream of its own: then what a server sends on it belongs to that request,
	// and the end of the stream tells a modern server that the request was given up.
	streams() bool
	close(ctx context.Context, polite bool)
}

var (
	_ transport = (*httpLink)(nil)
	_ transport = (*sseLink)(nil)
	_ transport = (*child)(nil)
)

// outgoing is one request on its way.
type outgoing struct {
	id     mcp.ID
	method string
	body   []byte                              // the whole message; shared with the transport until exchange returns
	header http.Header                         // over HTTP; nil: those of the session. Shared: do not modify
	notify func(context.Context, *mcp.Message) // nil: notifications that belong to the request are dropped
	asks   *dialogue                           // takes the questions that belong to the request; nil: there are none

	sessionID string // set by exchange when the answer opened a session

	telling  sync.Mutex // held while notify runs; guards the field below
	finished bool
}

// deliver hands on a notification that belongs to the request, one after the other and none after finish.
func (o *outgoing) deliver(ctx context.Context, m *mcp.Message) {
	if o.notify == nil {
		return
	}
	o.telling.Lock()
	defer o.telling.Unlock()
	if !o.finished {
		o.notify(ctx, m)
	}
}

// begin hands on notifications again: a request is sent once more when its session was forgotten.
func (o *outgoing) begin() {
	o.telling.Lock()
	defer o.telling.Unlock()
	o.finished = false
}

// finish waits for a notification that is being handed on, and hands on no other.
func (o *outgoing) finish() {
	o.telling.Lock()
	defer o.telling.Unlock()
	o.finished = true
}

// owns tells whether the notification belongs to this request: by its progress token or its subscription.
func (o *outgoing) owns(m *mcp.Message) bool { return owner(m) == o.id }

// owner returns the id of the request that a notification belongs to, "" when it belongs to none.
func owner(m *mcp.Message) mcp.ID {
	if m.Method == mcp.NotifyProgress {
		return mcp.ID(m.Params.Value(mcp.MetaProgressToken))
	}
	return mcp.ID(m.Params.Object("_meta").Value(mcp.MetaSubscriptionID))
}
