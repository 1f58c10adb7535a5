package upstream

import (
	"maps"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// complete brings the result of a method into the form that is passed on: a complete
// result, that of a tool with content, or questions from a modern server. A result of any
// other type is an error. Whether the result has what its method promises, and whether
// the method may ask at all, is for whoever called to judge, of whatever source.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
func (f fault) complete(method, revision string, result mcp.Object) (mcp.Object, error) {
	kind := result.Value("resultType")
	asks := kind.Says("input_required") && mcp.EraOf(revision) == mcp.Modern
	if kind != nil && !asks && !kind.Says("complete") {
		return mcp.Object{}, f.protocol("%s: a result of a type that was not asked for", method)
	}
	result = withoutServerInfo(result)
	if asks || mcp.MethodOf(method).Result != mcp.ResultContent {
		return result, nil
	}
	return f.content(result)
}

// content returns the result of a tool call with an array of content. A result without
// any gets an empty array.
func (f fault) content(result mcp.Object) (mcp.Object, error) {
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

// refusal ends a call because its client answered a question with an error, for which the
// answers of 2026-07-28 have no place. Of several errors the one with the first key is
// told, so that the choice is always the same.
func refusal(method string, refusals map[string]*mcp.Error) (mcp.Object, error) {
	first := refusals[slices.Min(slices.Collect(maps.Keys(refusals)))]
	if method != mcp.MethodToolsCall {
		return mcp.Object{}, first
	}
	text := "The client answered a question of this tool with an error: " + first.Error()
	return mcp.ToolError(text), nil
}

// fromToolResult converts the form of the drafts before 2024-11-05, in which toolResult
// was the whole result.
func fromToolResult(result mcp.Object, old mcp.RawJSON) mcp.Object {
	text, isText := old.Text()
	if !isText {
		text = string(old)
	}
	result = result.Without("toolResult").With("content", mcp.TextResult(text).Value("content"))
	if old.IsObject() && !result.Has("structuredContent") {
		result = result.With("structuredContent", old)
	}
	return result
}

// withoutServerInfo removes the member of _meta that says which server answered: for
// clients, the gateway did.
func withoutServerInfo(result mcp.Object) mcp.Object {
	meta := result.Object("_meta")
	if !meta.Has(mcp.MetaServerInfo) {
		return result
	}
	return result.WithMeta(meta.Without(mcp.MetaServerInfo))
}

// taskState brings what a modern server says of a task into the form that is passed on.
// The result of a request about a task should be complete; one that calls itself a task
// is accepted too, because some examples of the extension do that.
// https://modelcontextprotocol.io/extensions/tasks
func (f fault) taskState(method string, result mcp.Object) (mcp.Object, error) {
	if kind := result.Text("resultType"); result.Has("resultType") && kind != "complete" && kind != "task" {
		return mcp.Object{}, f.protocol("%s: a result of a type that was not asked for", method)
	}
	result = withoutServerInfo(result.Without("resultType"))
	done, ok := mcp.ObjectOf(result.Value("result"))
	if !ok {
		return result, nil
	}
	done, err := f.complete(mcp.MethodToolsCall, mcp.LatestLegacy, done) // legacy, so that it cannot ask
	return result.With("result", done.JSON()), err
}
