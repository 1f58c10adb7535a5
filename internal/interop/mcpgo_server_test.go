package interop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// mcpGoServer is a server of mcp-go, which speaks both eras over every transport. Two of
// its tools ask in the middle of a call, one through its result.
func mcpGoServer() *mcpserver.MCPServer {
	s := mcpserver.NewMCPServer("mcp-go", "1", mcpserver.WithToolCapabilities(true),
		mcpserver.WithElicitation(), mcpserver.WithRoots())
	s.EnableSampling()
	s.AddTool(mcp.NewTool("greet"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult,
		error,
	) {
		return mcp.NewToolResultText(fmt.Sprintf("hello with %d arguments", len(r.GetArguments()))), nil
	})
	s.AddTool(mcp.NewTool("steps"), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult,
		error,
	) {
		for i := range 3 {
			step := map[string]any{"progressToken": r.Params.Meta.ProgressToken, "progress": i + 1}
			if err := s.SendNotificationToClient(ctx, "notifications/progress", step); err != nil {
				return nil, err
			}
		}
		return mcp.NewToolResultText("stepped"), nil
	})
	s.AddTool(mcp.NewTool("who"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult,
		error,
	) {
		answer, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: whoParams()})
		if err != nil {
			return nil, err
		}
		return mcp.NewToolResultText(fmt.Sprint("who ", answer.Action, answer.Content)), nil
	})
	s.AddTool(mcp.NewTool("think"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult,
		error,
	) {
		question := mcp.CreateMessageRequest{}
		question.MaxTokens = 5
		question.Messages = []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent("what?")}}
		answer, err := s.RequestSampling(ctx, question) //nolint:staticcheck // servers of the legacy era do it
		if err != nil {
			return nil, err
		}
		text, _ := mcp.AsTextContent(answer.Content)
		return mcp.NewToolResultText("think " + text.Text), nil
	})
	s.AddTool(mcp.NewTool("whose"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult,
		error,
	) {
		answer := mcpserver.ElicitationResponse(r.Params.InputResponses, "whose")
		if answer == nil {
			return mcpserver.NewInputRequestBuilder("round one").Elicit("whose", whoParams()).ToolResult(),
				nil
		}
		return mcp.NewToolResultText(fmt.Sprint("whose ", answer.Action, answer.Content)), nil
	})
	s.AddTool(mcp.NewTool("grow", mcp.WithString("name")),
		func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			s.AddTool(mcp.NewTool(r.GetString("name", "")),
				func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return nil, errors.New("this tool is only listed")
				})
			return mcp.NewToolResultText("grown"), nil
		})
	return s
}

func whoParams() mcp.ElicitationParams {
	name := map[string]any{"name": map[string]any{"type": "string"}}
	return mcp.ElicitationParams{Message: "who?", RequestedSchema: map[string]any{
		"type":       "object",
		"properties": name,
	}}
}

// mcpGoOverHTTP runs such a server and returns its address.
func mcpGoOverHTTP(t testing.TB) string {
	t.Helper()
	s := httptest.NewServer(mcpserver.NewStreamableHTTPServer(mcpGoServer(),
		mcpserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler))))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL + "/mcp"
}

// mcpGoChild is such a server as a whole program.
func mcpGoChild() int {
	if err := mcpserver.NewStdioServer(mcpGoServer()).Listen(context.Background(), os.Stdin,
		os.Stdout); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
