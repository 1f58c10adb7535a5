package gateway

import (
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
)

// Bounds of the questions in one result.
const (
	maxQuestions   = 32
	maxQuestionKey = 256 // bytes
)

// askable returns an error if the client cannot be asked one of the questions: a
// *capabilityError that names everything the client lacks, or a fault of the upstream if
// a question is malformed.
func (c *call) askable(questions mcp.RawJSON) error {
	all, ok := mcp.ObjectOf(questions)
	if !ok || all.Len() > maxQuestions {
		return c.broken("inputRequests are no object or too many")
	}
	var missing mcp.Object
	used := map[string]bool{}
	for key, raw := range all.Members {
		question, ok := mcp.ObjectOf(raw)
		if !ok || len(key) > maxQuestionKey {
			return c.broken("a question is no object, or its key is too long")
		}
		method, params := question.Text("method"), question.Object("params")
		if sanitize.Dangerous(params.Text("url")) { // the client opens it for a person
			return c.broken("a question with a URL that would run code")
		}
		if mcp.CanBeAsked(c.request.Capabilities, method, params) {
			used[deprecated[method]] = true
			continue
		}
		if missing, ok = mcp.WithNeeded(missing, method, params); !ok {
			return c.broken("a question that the protocol does not have")
		}
	}
	if missing.Len() > 0 {
		return &capabilityError{missing}
	}
	delete(used, "")
	for part := range used {
		c.gateway.config.Metrics.DeprecatedUsed(c.caller.Tenant.ID, part)
	}
	return nil
}

// checkAnswers returns an error unless what the client sends as answers to questions is
// an object of objects.
func (c *call) checkAnswers() error {
	if err := needObject(c.params, "inputResponses"); err != nil {
		return err
	}
	for key, answer := range c.params.Object("inputResponses").Members {
		if !answer.IsObject() {
			return mcp.Stable(mcp.CodeInvalidParams, "DB-PARAMS",
				"Invalid params: the answer to "+clip(key, maxQuestionKey)+" must be an object")
		}
	}
	return nil
}

// deprecated has the questions that the protocol will remove, by their methods.
var deprecated = map[string]string{mcp.MethodRoots: "roots", mcp.MethodSample: "sampling"}
