package gateway

import (
	"context"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Subscribe tells of changes of the resource with that exposed URI until stop is called. updated gets the exposed URI
// that changed, which may be of a part of the resource; it is called from any goroutine and must not wait. id is that
// of the HTTP request, for records. ctx is for the opening alone. Errors are *mcp.Error, of calls: a subscription is
// limited and recorded like one. Whether the caller still may see what changed is for Reads to say.
func (g *Gateway) Subscribe(ctx context.Context, c Caller, id, uri string, updated func(uri string)) (stop func(), err error) {
	return nil, mcp.Stable(mcp.CodeMethodNotFound, "DB-METHOD", "Method not found")
}

// Reads tells whether the caller may read the resource with that exposed URI now.
func (g *Gateway) Reads(c Caller, uri string) bool { return false }
