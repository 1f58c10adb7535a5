package upstream

import (
	"maps"
	"slices"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// maxValues is how many values a completion may have.
// https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion
const maxValues = 100

// complete brings the result of a method into the form that is passed on: a complete
// result that has what the method promises, or, from a modern server and for a method
// that may ask, questions. A result of any other type is an error.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
func (f fault) complete(method, revision string, result mcp.Object) (mcp.Object, error) {
	kind := result.Value("resultType")
	asks := kind.Says("input_required") && mcp.EraOf(revision) == mcp.Modern && mayAsk(method)
	if kind != nil && !asks && !kind.Says("complete") {
		return mcp.Object{}, f.protocol("%s: a result of a type that was not asked for", method)
	}
	result = withoutServerInfo(result)
	if asks {
		return f.question(method, result)
	}
	switch member := mcp.MethodOf(method).Result; member {
	case mcp.ResultContent:
		return f.content(result)
	case mcp.ResultMessages, mcp.ResultContents:
		return f.holding(method, result, member)
	case mcp.ResultCompletion:
		return f.values(result)
	}
	return result, nil
}

// mayAsk tells whether a method may be answered with questions.
func mayAsk(method string) bool { return mcp.MethodOf(method).Asks }

// question returns a result with questions as it is. It must have questions, or a
// requestState alone, which tells the client to send the request again.
func (f fault) question(method string, result mcp.Object) (mcp.Object, error) {
	requests, state := result.Value("inputRequests"), result.Value("requestState")
	if requests == nil && state == nil || requests != nil && !requests.IsObject() ||
		state != nil && !state.IsText() {
		return mcp.Object{}, f.protocol("%s: neither questions nor a state in a result that asks for input",
			method)
	}
	return result, nil
}

// holding returns the result as it is if that member is an array.
func (f fault) holding(method string, result mcp.Object, member string) (mcp.Object, error) {
	if !result.Value(member).IsArray() {
		return mcp.Object{}, f.protocol("%s: no array of %s", method, member)
	}
	return result, nil
}

// values returns the result of a completion, cut to maxValues.
func (f fault) values(result mcp.Object) (mcp.Object, error) {
	completion := result.Object("completion")
	values, ok := completion.Value("values").Elements()
	noText := func(value mcp.RawJSON) bool { return !value.IsText() }
	if !ok || slices.ContainsFunc(values, noText) {
		return mcp.Object{}, f.protocol("completion/complete: no array of texts")
	}
	if len(values) <= maxValues {
		return result, nil
	}
	completion = completion.With("values", mcp.Array(values[:maxValues])).With("hasMore", mcp.Bool(true))
	return result.With("completion", completion.JSON()), nil
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
