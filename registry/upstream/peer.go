package upstream

import (
	"context"

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
