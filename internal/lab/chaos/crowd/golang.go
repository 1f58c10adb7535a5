package crowd

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mcpgo "github.com/mark3labs/mcp-go/mcp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// goSDK is a client of the official SDK for Go.
type goSDK struct {
	*catcher

	session *sdk.ClientSession
}

func openGoSDK(ctx context.Context, p *person) library {
	c := &catcher{token: p.token}
	return &goSDK{c, must.Have(sdk.NewClient(&sdk.Implementation{Name: "crowd", Version: "1"}, nil).Connect(ctx,
		&sdk.StreamableClientTransport{
			Endpoint: p.crowd.config.URL + "/mcp", HTTPClient: &http.Client{Transport: c},
		}, &sdk.ClientSessionOptions{ProtocolVersion: mcp.LatestLegacy}))}
}

func (g *goSDK) call(ctx context.Context, tool, arguments string) (mcp.Object, *reply, error) {
	result, err := g.session.CallTool(ctx, &sdk.CallToolParams{
		Name: tool, Arguments: json.RawMessage(arguments),
	})
	return g.came(result, err)
}

func (g *goSDK) close() { _ = g.session.Close() } // its session may be gone already

// mcpGo is a client of mcp-go.
type mcpGo struct {
	*catcher

	client *client.Client
}

func openMCPGo(ctx context.Context, p *person) library {
	c := &catcher{token: p.token}
	link := must.Have(transport.NewStreamableHTTP(p.crowd.config.URL+"/mcp",
		transport.WithHTTPBasicClient(&http.Client{Transport: c}),
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler))))
	g := &mcpGo{c, client.NewClient(link, client.WithProtocolVersion(mcp.LatestLegacy))}
	must.OK(g.client.Start(p.crowd.life))
	defer must.Else(g.close)
	hello := mcpgo.InitializeRequest{}
	hello.Params.ClientInfo = mcpgo.Implementation{Name: "crowd", Version: "1"}
	must.Have(g.client.Initialize(ctx, hello))
	return g
}

func (g *mcpGo) call(ctx context.Context, tool, arguments string) (mcp.Object, *reply, error) {
	request := mcpgo.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = tool, json.RawMessage(arguments)
	result, err := g.client.CallTool(ctx, request)
	return g.came(result, err)
}

func (g *mcpGo) close() { _ = g.client.Close() } // its session may be gone already
