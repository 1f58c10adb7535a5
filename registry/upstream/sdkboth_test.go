package upstream_test

import (
	"context"
	"fmt"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// roundsSDK is a server of the official SDK, which speaks both eras over stdio. One of
// its tools asks in the middle of the call, one through its result, in two rounds.
func roundsSDK() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "counterpart", Version: "1"}, nil)
	question := &sdk.ElicitParams{Message: "how many?", RequestedSchema: map[string]any{
		"type":       "object",
		"properties": map[string]any{},
	}}
	server.AddTool(&sdk.Tool{Name: "ask", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			answer, err := req.Session.Elicit(ctx, question)
			if err != nil {
				return nil, err
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(
				"asked {\"is\":%q}", answer.Content["is"])}}}, nil
		})
	server.AddTool(&sdk.Tool{Name: "rounds", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			round := req.Params.RequestState
			if round == "two" {
				answer := req.Params.InputResponses["q"].(*sdk.ElicitResult)
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(
					"twice {\"is\":%q}", answer.Content["is"])}}}, nil
			}
			next := map[string]string{"": "one", "one": "two"}[round]
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": question}, RequestState: next},
				nil
		})
	return server
}

// TestOfficialSDKOfBothErasAsksInEveryWay has the official SDK's server ask over stdio a
// client in a session: in the middle of the call, which it is refused in 2026-07-28, and
// in two rounds through its result, of which its older side carries over but one.
func TestOfficialSDKOfBothErasAsksInEveryWay(t *testing.T) {
	t.Parallel()
	r := start(t, command("sdk-asks"))
	r.untilTool("rounds")
	askableCaller{r, "ask", true}.must(t, "asked")
	askableCaller{r, "rounds", true}.must(t, "twice")
	askableCaller{r, "rounds", false}.must(t, "twice")
}
