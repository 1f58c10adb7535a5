package builtin

import (
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
func structuredResult(v any) mcp.Object {
	raw := encoded(v)
	return mcp.TextResult(string(raw)).With("structuredContent", raw)
}

// encoded returns v as JSON. All that tools say can be encoded: texts, finite numbers,
// and what is JSON already.
func encoded(v any) mcp.RawJSON {
	text, err := strictjson.Marshal(v)
	if err != nil {
		panic("builtin: " + err.Error())
	}
	return text
}
