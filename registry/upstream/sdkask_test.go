package upstream_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// askingSDK is a server of the official SDK whose tool asks everything and logs.
func askingSDK() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "counterpart", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "all"}, func(ctx context.Context, req *sdk.CallToolRequest,
		_ map[string]any,
	) (*sdk.CallToolResult, any, error) {
		_ = req.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: "begun"}) //nolint:staticcheck // servers of the legacy era do it
		elicited, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: "who?"})
		if err != nil {
			return nil, nil, fmt.Errorf("elicit: %w", err)
		}
		sampled, err := req.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 5, Messages: []*sdk.SamplingMessage{ //nolint:staticcheck // servers of the legacy era do it
			{Role: "user", Content: &sdk.TextContent{Text: "say"}},
		}})
		if err != nil {
			return nil, nil, fmt.Errorf("sample: %w", err)
		}
		roots, err := req.Session.ListRoots(ctx, nil) //nolint:staticcheck // servers of the legacy era do it
		if err != nil {
			return nil, nil, fmt.Errorf("roots: %w", err)
		}
		said := sampled.Content.(*sdk.TextContent).Text
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{
			Text: fmt.Sprint(elicited.Action, " ", elicited.Content["is"], " ", said, " ",
				roots.Roots[0].URI),
		}}}, nil, nil
	})
	return server
}

// TestOfficialSDKAsks has the official SDK's server ask for all there is, in three
// rounds.
func TestOfficialSDKAsks(t *testing.T) {
	t.Parallel()
	server := askingSDK()
	for name, options := range map[string]sdk.StreamableHTTPOptions{
		"streams": {},
		"JSON":    {JSONResponse: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(
				sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &options))
			t.Cleanup(func() {
				s.CloseClientConnections()
				s.Close()
			})
			r := start(t, upstream.Config{URL: s.URL})
			r.untilTool("all")
			heard := &notes{}
			p := person{
				tenant: "a", name: "alice",
				asks: `{"elicitation":{"form":{}},"roots":{},"sampling":{}}`, level: "info",
			}
			responses, state := "", ""
			for _, step := range []struct{ method, answer string }{
				{"elicitation/create", `{"action":"accept","content":{"is":"me"}}`},
				{
					"sampling/createMessage",
					`{"role":"assistant","model":"m","content":{"type":"text","text":"said"}}`,
				},
				{"roots/list", `{"roots":[{"uri":"file:///r","name":"r"}]}`},
			} {
				asked, next, got, err := r.round(t.Context(), "all", p.call(t, "", responses, state, heard))
				if err != nil || asked.Len() != 1 ||
					asked.Object(keys(asked)[0]).Text("method") != step.method {
					t.Fatalf("got %s, %q, %v (%s), want %s", asked.JSON(), got, err, cause(err), step.method)
				}
				responses, state = `{"`+keys(asked)[0]+`":`+step.answer+`}`, next
			}
			_, _, got, err := r.round(t.Context(), "all", p.call(t, "", responses, state, heard))
			if err != nil || got != "accept me said file:///r" {
				t.Errorf("result: got %q, %v", got, err)
			}
			if logged := heard.text(); name == "streams" && strings.TrimSpace(logged) != "begun" {
				t.Errorf("log messages: got %q", logged)
			}
		})
	}
}
