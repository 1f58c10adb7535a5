package builtin

import (
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// arguments returns the arguments of a call.
func arguments(c *registry.Call) mcp.Object { return c.Params.Object("arguments") }

// structuredResult returns v, a struct, as structured content, and its JSON as text for clients that know only that.
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools
func structuredResult(v any) (mcp.Object, error) {
	text, err := strictjson.Marshal(v)
	if err != nil {
		return mcp.Object{}, fmt.Errorf("encode result: %w", err)
	}
	return mcp.TextResult(string(text)).With("structuredContent", mcp.RawJSON(text)), nil
}

// errorResult is the answer to a call that was used wrongly or cannot be served now. Its text is for the model: what
// was wrong and what to do instead.
func errorResult(format string, args ...any) mcp.Object {
	return mcp.ToolError(fmt.Sprintf(format, args...))
}
