package upstream

import (
	"errors"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// stateAgain is the requestState of a call that is to be made anew when its caller has opened some addresses.
const stateAgain = "again"

// again tells whether a call is to be made anew: not when its caller did not accept to open an address.
func again(c *registry.Call) (bool, error) {
	answers, err := answersOf(c)
	if err != nil {
		return false, err
	}
	accepted := len(c.Refusals) == 0
	for key, raw := range answers.Members {
		answer, ok := mcp.ObjectOf(raw)
		if !ok {
			return false, mcp.Errorf(mcp.CodeInvalidParams, "Invalid params: the answer to %s must be an object", key)
		}
		accepted = accepted && answer.Text("action") == "accept"
	}
	return accepted, nil
}

// failed returns the result of a tool whose text says what went wrong, and of what is no tool the error.
func failed(i *item, text string, err error) (mcp.Object, error) {
	if i.method != mcp.MethodToolsCall {
		return mcp.Object{}, err
	}
	return mcp.ToolError(text), nil
}

// opened turns the error of a server whose user must open addresses first into questions where the caller can be asked
// them, and for a tool into a result that says so where not.
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-mode-elicitation-required-error
func opened(i *item, c *registry.Call, err error) (mcp.Object, error) {
	var answered *mcp.Error
	if !errors.As(err, &answered) || answered.Code != mcp.CodeURLElicitation {
		return mcp.Object{}, err
	}
	data, _ := mcp.ObjectOf(answered.Data)
	elicitations, _ := data.Value("elicitations").Elements()
	elicitations = elicitations[:min(len(elicitations), roundMax)]
	var (
		requests mcp.Object
		text     = answered.Message
		asks     = len(elicitations) > 0 && i.asks
	)
	for n, one := range elicitations {
		params, _ := mcp.ObjectOf(one)
		params = asked(params.With("mode", mcp.String("url")))
		asks = asks && mcp.CanBeAsked(c.Capabilities, mcp.MethodElicit, params)
		requests = requests.With(questionKey(n+1), inputRequest(mcp.MethodElicit, params))
		text += "\n" + params.Text("message") + "\n" + params.Text("url")
	}
	if asks {
		return inputRequired(requests, stateAgain), nil
	}
	return failed(i, text, err)
}
