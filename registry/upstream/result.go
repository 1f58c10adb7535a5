package upstream

import "github.com/drawbridge-mcp/drawbridge/internal/mcp"

// complete brings a result into the form that is passed on: complete, with content.
func (f fault) complete(result mcp.Object) (mcp.Object, error) {
	if kind := result.Value("resultType"); kind != nil && string(kind) != `"complete"` {
		return mcp.Object{}, f.protocol("a result of a type that was not asked for")
	}
	result = withoutServerInfo(result)
	content, old := result.Value("content"), result.Value("toolResult")
	switch {
	case content.IsArray():
		return result, nil
	case !content.IsNull():
		return mcp.Object{}, f.protocol("content is no array")
	case old == nil:
		return result.With("content", mcp.RawJSON("[]")), nil
	}
	return fromToolResult(result, old), nil
}

// fromToolResult converts the result form of the drafts before 2024-11-05, in which toolResult was the whole result.
func fromToolResult(result mcp.Object, old mcp.RawJSON) mcp.Object {
	text := old
	if _, isText := old.Text(); !isText {
		text = mcp.String(string(old))
	}
	block := mcp.NewObject(mcp.Member{Name: "type", Value: mcp.String("text")}, mcp.Member{Name: "text", Value: text})
	result = result.Without("toolResult").With("content", mcp.Array([]mcp.RawJSON{block.JSON()}))
	if old.IsObject() && !result.Has("structuredContent") {
		result = result.With("structuredContent", old)
	}
	return result
}

// withoutServerInfo removes what says who answered: to clients, the gateway did.
func withoutServerInfo(result mcp.Object) mcp.Object {
	meta := result.Object("_meta")
	if !meta.Has(mcp.MetaServerInfo) {
		return result
	}
	if meta = meta.Without(mcp.MetaServerInfo); meta.Len() == 0 {
		return result.Without("_meta")
	}
	return result.With("_meta", meta.JSON())
}
