package upstream

import (
	"context"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/pace"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// stateAgain is the requestState of a call that its server refused until the user has
// opened some addresses. Its repeat is made anew, as a first call, so nothing is kept of
// it here.
const stateAgain = "again"

// again tells whether the repeat of such a call is to be made anew: only if its caller
// accepted to open every address.
func again(c *registry.Call) bool {
	accepted := len(c.Refusals) == 0
	for _, raw := range c.Params.Object("inputResponses").Members {
		answer, _ := mcp.ObjectOf(raw)
		accepted = accepted && answer.Text("action") == "accept"
	}
	return accepted
}

// openTries is how often a call is made whose user opens addresses meanwhile, over half a
// minute: after a second, and then after twice as long each time, up to openPause.
const (
	openTries = 7
	openPause = 8 * time.Second
)

// untilOpened makes a call at most that many times, while its server refuses it until its
// user has opened some addresses. The call has no effect then. That the user agreed to
// open them says nothing of when what is to be done there is done, and a server need not
// tell: asked again at once, the user would read the same question over and over. No more
// than half of the time that is left of ctx is waited for.
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-mode-elicitation-required-error
func untilOpened(ctx context.Context, tries int, call func() (mcp.Object, error)) (
	result mcp.Object, err error,
) {
	for pause := time.Second; ; pause = min(2*pause, openPause) {
		result, err = call()
		tries--
		if tries == 0 || toOpen(err) == nil {
			return result, err
		}
		if end, ends := ctx.Deadline(); ends && time.Until(end) < 2*pause || !pace.Wait(ctx, pause) {
			return result, err
		}
	}
}

// failed returns, for a tool, a result whose text says what went wrong, because the model
// that called it reads results. For what is no tool it returns err.
func failed(i *item, text string, err error) (mcp.Object, error) {
	if i.method != mcp.MethodToolsCall {
		return mcp.Object{}, err
	}
	return mcp.ToolError(text), nil
}

// opened deals with the error of a server whose user must open some addresses before the
// call can succeed. Where the caller can be asked, the addresses become questions. Where
// not, a tool's result names them in words. Any other error is returned as it is.
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-mode-elicitation-required-error
func opened(i *item, c *registry.Call, err error) (mcp.Object, error) {
	answered := toOpen(err)
	if answered == nil {
		return mcp.Object{}, err
	}
	data, _ := mcp.ObjectOf(answered.Data)
	elicitations, _ := data.Value("elicitations").Elements()
	var (
		requests mcp.Object
		text     = answered.Message
		asks     = len(elicitations) > 0 && i.asks
	)
	for n, one := range elicitations {
		params, _ := mcp.ObjectOf(one)
		params = asked(params.With("mode", mcp.String("url")))
		asks = asks && mcp.CanBeAsked(c.Capabilities, mcp.MethodElicit, params)
		requests = requests.With(questionKey(questionPrefix, n+1), inputRequest(mcp.MethodElicit, params))
		text += "\n" + params.Text("message") + "\n" + params.Text("url")
	}
	if asks {
		return inputRequired(requests, stateAgain), nil
	}
	return failed(i, text, err)
}
