package upstream

import (
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// item is what a call needs to know of what it is about. It is immutable.
type item struct {
	method     string
	name       string      // or URI, or id of a task; of a completion, that of what its argument belongs to
	quoted     mcp.RawJSON // the same as JSON; of a completion, the whole reference
	revision   string      // that the server speaks
	idempotent bool        // a tool that the operator says does no harm when called twice
	header     http.Header // of calls without Mcp-Param-* over modern HTTP; made by the peer, nil elsewhere
	asTask     bool        // the call asks for a task
	asks       bool        // the method may answer with questions
}
