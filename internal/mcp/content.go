package mcp

// TextBlock returns a content block of text.
func TextBlock(text string) RawJSON {
	return NewObject(
		Member{Name: "type", Value: String("text")}, Member{Name: "text", Value: String(text)},
	).JSON()
}

// TextResult returns the result of a tool that says text.
func TextResult(text string) Object {
	return NewObject(Member{Name: "content", Value: Array([]RawJSON{TextBlock(text)})})
}

// ToolError returns the result of a tool that failed. It is a result and no JSON-RPC
// error, because the model reads it: the text says what was wrong, and what to do
// instead.
// https://modelcontextprotocol.io/specification/2026-07-28/server/tools#error-handling
func ToolError(text string) Object { return TextResult(text).With("isError", Bool(true)) }
