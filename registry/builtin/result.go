package builtin

import (
	"fmt"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// arguments returns the arguments of a call. The gateway has validated them against the
// tool's input schema.
func arguments(c *registry.Call) mcp.Object { return c.Params.Object("arguments") }

// structuredResult returns a result with v, a struct, as structured content, and with its
// JSON as text for clients that read only text.
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools
func structuredResult(v any) (mcp.Object, error) {
	text, err := strictjson.Marshal(v)
	if err != nil {
		return mcp.Object{}, fmt.Errorf("encode result: %w", err)
	}
	return mcp.TextResult(string(text)).With("structuredContent", mcp.RawJSON(text)), nil
}

// errorResult returns the result (with isError) of a call that is wrong or cannot be
// served now. Its text tells the model what is wrong and what to do instead. The error of
// a Func, in contrast, is for faults that the model cannot mend.
func errorResult(format string, args ...any) mcp.Object {
	return mcp.ToolError(fmt.Sprintf(format, args...))
}
