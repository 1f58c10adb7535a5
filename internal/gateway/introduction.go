package gateway

import (
	"cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// ServerInfo returns what the gateway calls itself to clients of either era. Without a
// name that is drawbridge.
func ServerInfo(name, version string) mcp.RawJSON {
	return mcp.NewObject(
		mcp.Member{Name: "name", Value: mcp.String(cmp.Or(name, "drawbridge"))},
		mcp.Member{Name: "version", Value: mcp.String(version)},
	).JSON()
}

// Capabilities returns what the gateway declares to be able to do, the same to everybody
// but for extensions of their servers, in the form of the modern era. The door leaves out
// what an older revision does not know. With tasks it declares that a call may become one
// and how that goes on: which do is for their servers to say, call by call.
func Capabilities() mcp.Object {
	changing := mcp.RawJSON(`{"listChanged":true}`)
	return mcp.NewObject(
		mcp.Member{Name: "tools", Value: changing},
		mcp.Member{Name: "prompts", Value: changing},
		mcp.Member{Name: "resources", Value: mcp.RawJSON(`{"subscribe":true,"listChanged":true}`)},
		mcp.Member{Name: "completions", Value: mcp.RawJSON("{}")},
		mcp.Member{Name: "logging", Value: mcp.RawJSON("{}")},
		mcp.Member{Name: "extensions", Value: mcp.RawJSON(`{"` + mcp.ExtensionTasks + `":{}}`)},
	)
}

// Extensions returns which extensions the gateway offers to the caller, beside tasks:
// those of the servers that the caller sees.
func (g *Gateway) Extensions(c Caller) mcp.Extensions { return g.callerViewOf(c).extensions }

// discover returns the answer to server/discover for a caller.
// https://modelcontextprotocol.io/specification/2026-07-28/server/discover
func (g *Gateway) discover(c Caller) mcp.Object {
	return g.finish(hinted(mcp.NewObject(
		mcp.Member{Name: "supportedVersions", Value: mcp.Strings(mcp.Revisions())},
		mcp.Member{Name: "capabilities", Value: g.Extensions(c).Adding(Capabilities()).JSON()},
	)))
}
