package gateway

import (
	"context"
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// Bounds of the questions in one result.
const (
	maxQuestions   = 32
	maxQuestionKey = 256 // bytes
)

// conformed lets a result out only if the protocol allows it as the answer to this method and this client can
// understand it. Some methods bring a result into a legal form first, and some have an answer of their own for an error
// of the upstream.
func (g *Gateway) conformed(next Handler) Handler {
	return func(ctx context.Context, c *call) (mcp.Object, error) {
		result, err := next(ctx, c)
		if err != nil {
			var said *upstreamError
			if c.method.rescue != nil && errors.As(err, &said) {
				return c.method.rescue(c, said)
			}
			return mcp.Object{}, err
		}
		kind := result.Value("resultType")
		if kind == nil {
			return c.method.conform(ctx, g, c, result)
		}
		switch word, _ := kind.Text(); word {
		case "complete":
			return c.method.conform(ctx, g, c, result)
		case "input_required":
			return c.asks(result)
		case "task":
			return g.makeTask(c, result)
		}
		return mcp.Object{}, c.broken("a result of an unknown type")
	}
}

// asks checks a result that asks the client for input, and marks the call as one that does. It refuses questions that
// this client did not declare it can be asked.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
func (c *call) asks(result mcp.Object) (mcp.Object, error) {
	if !c.method.Asks {
		return mcp.Object{}, c.broken("a question where none is allowed")
	}
	questions, inner := result.Value("inputRequests"), result.Value("requestState")
	if questions == nil && inner == nil {
		return mcp.Object{}, c.broken("input is required, but none is asked for")
	}
	if inner != nil {
		if text, ok := inner.Text(); !ok || len(text) > maxInner {
			return mcp.Object{}, c.broken("a requestState that is no text or too long")
		}
	}
	if questions != nil {
		if err := c.askable(questions); err != nil {
			return mcp.Object{}, err
		}
		if c.task != nil {
			result = result.With("inputRequests", c.related(questions))
		}
	}
	c.asking, c.outcome = true, outcomeAsks
	return result.Without("ttlMs", "cacheScope"), nil
}

// askable returns an error if the client cannot be asked one of the questions: a *capabilityError that names everything
// the client lacks, or a fault of the upstream if a question is malformed.
func (c *call) askable(questions mcp.RawJSON) error {
	all, ok := mcp.ObjectOf(questions)
	if !ok || all.Len() > maxQuestions {
		return c.broken("inputRequests are no object or too many")
	}
	var missing mcp.Object
	for key, raw := range all.Members {
		question, ok := mcp.ObjectOf(raw)
		if !ok || len(key) > maxQuestionKey {
			return c.broken("a question is no object, or its key is too long")
		}
		method, params := question.Text("method"), question.Object("params")
		if mcp.CanBeAsked(c.request.Capabilities, method, params) {
			continue
		}
		if missing, ok = mcp.WithNeeded(missing, method, params); !ok {
			return c.broken("a question that the protocol does not have")
		}
	}
	if missing.Len() > 0 {
		return &capabilityError{missing}
	}
	return nil
}
