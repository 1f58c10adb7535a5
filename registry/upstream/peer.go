package upstream

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// Limits of peers.
const (
	aliveLimit = 10 * time.Second // for the answer that proves life
	closeLimit = 2 * time.Second  // for saying good-bye over HTTP
	// a subscription or stream that lasted this long was good: the backoff begins anew
	lasted = 10 * time.Second

	// reprobeEvery is how often a server that answers well is asked whether it speaks the
	// other era by now.
	reprobeEvery = 10 * time.Minute
)

// pager asks for one page of a list, as peer.page does.
type pager func(ctx context.Context, method string, params mcp.Object) (mcp.Object, error)

// peer is one server as the rest of this package sees it: everything in the form of
// 2026-07-28, whatever the server's own era and transport. Its methods are safe for
// concurrent use.
type peer interface {
	// as returns what asks for pages as a client would that declares these capabilities;
	// nil: it can ask in no other name, and all clients get its own lists.
	as(declared mcp.Object) pager
	// prepare puts into i what every call about it needs. It is called once, when the
	// item is made.
	prepare(i *item)
	// page asks for one page of a list: the first, unless params have a cursor.
	page(ctx context.Context, method string, params mcp.Object) (mcp.Object, error)
	// call runs one call. Its result is complete, or it asks the caller for input
	// (input_required).
	call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error)
	// watch follows what the server says of changes of its lists. It returns when ctx
	// ends, when the connection is lost, or with nil when this server announces nothing.
	watch(ctx context.Context) error
	// watchResource tells a tenant of changes of one resource until ctx ends or the
	// connection is lost. onConfirmed is called once, as soon as no later change can go
	// unseen. Neither onConfirmed nor updated may block.
	watchResource(ctx context.Context, tenantID, uri string, onConfirmed func(),
		updated func(uri string)) error
	// alive asks the server for a proof of life. nil means that it lives.
	alive(ctx context.Context) error
	// sessions returns how many sessions of the legacy era there are, for Load.
	sessions() int
	// close ends the connection and waits for all that belongs to it. polite: the server
	// is still there, so it is told that the session ends.
	close(ctx context.Context, polite bool)
}
