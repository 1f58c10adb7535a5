package server

import (
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// answer is what became of a request: a result or an error, or silence when the client cancelled it.
type answer struct {
	id     mcp.ID
	result mcp.Object
	err    *mcp.Error
	silent bool
}

// message returns the response. An error names the HTTP request that it is about.
func (a *answer) message(requestID string) []byte {
	if a.err != nil {
		return mcp.AppendError(nil, a.id, a.err.OfRequest(requestID))
	}
	return mcp.AppendResult(nil, a.id, a.result)
}

// word returns the outcome for the log.
func (a *answer) word() string {
	switch {
	case a.silent:
		return "cancelled"
	case a.err != nil:
		return wordFor(a.err)
	case string(a.result.Value("isError")) == "true":
		return "tool_error"
	}
	return "ok"
}
