package interop_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// mcpGoClient is a client of mcp-go, with a user and a model behind it.
type mcpGoClient struct {
	*mcpclient.Client
	revision string

	mu       sync.Mutex // guards the fields below
	progress []float64
	changes  int // list_changed
}

// Elicit answers for the user.
func (*mcpGoClient) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"name": "ada"},
	}}, nil
}

// CreateMessage answers for the model.
func (*mcpGoClient) CreateMessage(context.Context, mcp.CreateMessageRequest) (*mcp.CreateMessageResult,
	error,
) {
	return &mcp.CreateMessageResult{
		Model: "m", SamplingMessage: mcp.SamplingMessage{
			Role:    mcp.RoleAssistant,
			Content: mcp.NewTextContent("therefore"),
		},
	}, nil
}

// mcpGo connects a client that speaks the revision, "" as it likes best; token may be
// empty.
func mcpGo(t testing.TB, url, token, revision string) *mcpGoClient {
	t.Helper()
	options := []transport.StreamableHTTPCOption{
		transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
		transport.WithHTTPHeaders(map[string]string{"Authorization": "Bearer " + token}),
	}
	if revision != modernRevision {
		options = append(options, transport.WithContinuousListening()) //nolint:staticcheck // an older client has no other way
	}
	link, err := transport.NewStreamableHTTP(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	return beginMCPGo(t, link, revision)
}

func beginMCPGo(t testing.TB, link transport.Interface, revision string) *mcpGoClient {
	t.Helper()
	c := &mcpGoClient{}
	c.Client = mcpclient.NewClient(link, mcpclient.WithElicitationHandler(c),
		mcpclient.WithSamplingHandler(c), mcpclient.WithProtocolVersion(revision))
	c.OnNotification(c.hear)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		_ = c.Close() // its session may be gone already
		cancel()
	})
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	hello := mcp.InitializeRequest{}
	hello.Params.ClientInfo = mcp.Implementation{Name: "interop-mcp-go", Version: "1"}
	said, err := c.Initialize(ctx, hello)
	if err != nil {
		t.Fatalf("mcp-go, revision %q: %v", revision, err)
	}
	if c.revision = said.ProtocolVersion; revision != "" && c.revision != revision {
		t.Fatalf("mcp-go agreed on %s, want %s", c.revision, revision)
	}
	if mcp.IsModernProtocol(c.revision) {
		// ends with the client
		go func() { _ = c.Listen(ctx, mcp.SubscriptionFilter{ToolsListChanged: true}) }()
	}
	return c
}

func (c *mcpGoClient) hear(n mcp.JSONRPCNotification) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch n.Method {
	case "notifications/progress":
		if progress, ok := n.Params.AdditionalFields["progress"].(float64); ok {
			c.progress = append(c.progress, progress)
		}
	case mcp.MethodNotificationToolsListChanged:
		c.changes++
	}
}

// heard returns what was heard so far.
func (c *mcpGoClient) heard() (progress []float64, changes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.progress), c.changes
}

func (c *mcpGoClient) names(t testing.TB) []string {
	t.Helper()
	list, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// use calls a tool and returns its text, or why there is none.
func (c *mcpGoClient) use(t testing.TB, tool string, arguments any) (text string, failed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	request := mcp.CallToolRequest{}
	request.Params.Name, request.Params.Arguments = tool, arguments
	request.Params.Meta = &mcp.Meta{ProgressToken: "of " + tool}
	result, err := c.CallTool(ctx, request)
	if err != nil {
		return err.Error(), true
	}
	var all strings.Builder
	for _, content := range result.Content {
		one, _ := mcp.AsTextContent(content)
		all.WriteString(one.Text)
	}
	return all.String(), result.IsError
}
