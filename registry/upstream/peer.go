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

	// reprobeEvery is how often a server that answers well is asked whether it speaks the other era by now.
	reprobeEvery = 10 * time.Minute
)

// peer is one server in modern form, whatever its era and transport.
type peer interface {
	// prepare puts into i what calls about it need again and again.
	prepare(i *item)
	// page asks for one page of a list; a nil cursor asks for the first, and no nextCursor in the result is the end.
	page(ctx context.Context, method string, cursor mcp.RawJSON) (mcp.Object, error)
	// call runs one call. Its result is complete, or asks its caller for input.
	call(ctx context.Context, i *item, c *registry.Call) (mcp.Object, error)
	// watch follows changes of the lists. It returns when ctx ends, when the connection is lost, or with nil when this
	// server tells nothing.
	watch(ctx context.Context) error
	// watchResource tells a tenant of changes of one resource until ctx ends or the connection is lost. live is called once,
	// when no later change goes unseen; neither it nor updated waits.
	watchResource(ctx context.Context, tenantID, uri string, live func(), updated func(uri string)) error
	// alive asks for a proof of life.
	alive(ctx context.Context) error
	// busy tells whether a call runs on the connection that lists. A server that does one thing at a time would not answer in
	// time what can wait as well, and be taken as lost in the middle of the call.
	busy() bool
	// sessions returns how many sessions of the legacy era there are.
	sessions() int
	// close ends the connection and waits for all that belongs to it; polite says good-bye.
	close(ctx context.Context, polite bool)
}
