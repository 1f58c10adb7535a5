package upstream

import (
	"net/http"

	"github.com/drawbridge-mcp/drawbridge/internal/dial"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// item is what a call needs to know of the thing it is about: a tool, a prompt, a
// resource, a task, or the reference of a completion. It is immutable once a call uses
// it.
type item struct {
	method     string
	name       string      // name, URI or task id; of a completion, name or URI in its reference
	quoted     mcp.RawJSON // name as JSON; of a completion, the whole reference
	revision   string      // the revision that the server speaks
	idempotent bool        // the operator says that calling this tool twice does no harm
	header     http.Header // of calls to a modern server, without Mcp-Param-*; nil: legacy server
	post       *dial.Post  // header, ready to be sent; nil: it is not
	asTask     bool        // the call asks for a task
	asks       bool        // the method may be answered with questions instead of a result
}
