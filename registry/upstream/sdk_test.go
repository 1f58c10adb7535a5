package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// sdkServer is a server of the official SDK.
func sdkServer() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "counterpart", Version: "1"}, &sdk.ServerOptions{PageSize: 2})
	object := json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)
	add := func(name string, f sdk.ToolHandler) {
		server.AddTool(&sdk.Tool{Name: name, Description: "d", InputSchema: object}, f)
	}
	say := func(text string) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
	}
	add("echo", func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return say(string(req.Params.Arguments))
	})
	add("progress", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range 20 {
			// Where answers are JSON it goes to a stream that may not be open yet, and that is not what is tested.
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: float64(i), Message: fmt.Sprint("step ", i),
			})
		}
		return say("done")
	})
	add("fail", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no"}}}, nil
	})
	add("wait", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		select {
		case <-ctx.Done():
		case <-time.After(3 * time.Second): // the cancellation may have come before the call, on another connection
		}
		return nil, ctx.Err()
	})
	add("grow", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		server.AddTool(&sdk.Tool{Name: "grown", InputSchema: object}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return say("I am new")
		})
		return say("ok")
	})
	return server
}

// sdkHTTP serves a server of the official SDK over Streamable HTTP.
func sdkHTTP(t testing.TB, options sdk.StreamableHTTPOptions) string {
	t.Helper()
	server := sdkServer()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &options)
	s := httptest.NewServer(handler)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// TestAgainstOfficialSDK runs the whole life of a connection against the official SDK's server.
func TestAgainstOfficialSDK(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		cfg      func(t *testing.T) upstream.Config
		revision string
	}{
		{"stdio", func(*testing.T) upstream.Config { return command("sdk") }, mcp.LatestModern},
		{"HTTP with sessions, streams", func(t *testing.T) upstream.Config {
			return upstream.Config{URL: sdkHTTP(t, sdk.StreamableHTTPOptions{})}
		}, mcp.LatestLegacy},
		{"HTTP with sessions, JSON", func(t *testing.T) upstream.Config {
			return upstream.Config{URL: sdkHTTP(t, sdk.StreamableHTTPOptions{JSONResponse: true})}
		}, mcp.LatestLegacy},
		{"HTTP stateless, streams", func(t *testing.T) upstream.Config {
			return upstream.Config{URL: sdkHTTP(t, sdk.StreamableHTTPOptions{Stateless: true})}
		}, mcp.LatestModern},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, test.cfg(t))
			r.untilUp()
			if got := r.last().Revision; got != test.revision {
				t.Errorf("revision: got %s, want %s", got, test.revision)
			}
			r.untilTool("echo")
			if got := len(r.tools()); got != 5 {
				t.Errorf("tools of all pages: got %v, want 5", r.tools())
			}
			if got := r.must("echo", `{"name":"x","arguments":{"region":"Straße","n":[1,2.50]}}`); got != `{"content":[{"type":"text","text":"{\"region\":\"Straße\",\"n\":[1,2.50]}"}]}` &&
				text(parse(t, got)) != `{"region":"Straße","n":[1,2.50]}` {
				t.Errorf("echo: got %s", got)
			}
			sdkProgress(t, r, test.name != "HTTP with sessions, JSON")
			if got := r.must("fail", `{"name":"x"}`); string(parse(t, got).Value("isError")) != "true" {
				t.Errorf("a tool's error: got %s, want isError", got)
			}
			sdkCancel(t, r)
			r.must("grow", `{"name":"x","arguments":{}}`)
			r.untilTool("grown")
			if got := text(parse(t, r.must("grown", `{"name":"x"}`))); got != "I am new" {
				t.Errorf("the new tool: got %q", got)
			}
		})
	}
}

func parse(t testing.TB, raw string) mcp.Object {
	t.Helper()
	object, err := mcp.ParseObject([]byte(raw))
	if err != nil {
		t.Fatalf("parse %s: %v", raw, err)
	}
	return object
}

func sdkProgress(t *testing.T, r *rig, streams bool) {
	t.Helper()
	var got []string
	result, err := r.call(t.Context(), "progress", `{"name":"x","_meta":{"progressToken":"mine"}}`, func(n mcp.Notification) {
		got = append(got, n.Params.Text("progressToken")+n.Params.Text("message"))
	})
	if err != nil || text(result) != "done" {
		t.Fatalf("progress: got %v, %v (%s)", result, err, cause(err))
	}
	if !streams {
		return
	}
	for i := range 20 {
		if want := fmt.Sprint("minestep ", i); i >= len(got) || got[i] != want {
			t.Fatalf("progress: got %q, want 20 in order", got)
		}
	}
}

func sdkCancel(t *testing.T, r *rig) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	tool, call := r.tool("wait"), request(t, `{"name":"x"}`, nil)
	go func() {
		_, err := tool.Call(ctx, call)
		done <- err
	}()
	cancel()
	if err := await(t, done); err != context.Canceled { //nolint:errorlint // exactly the context's own error
		t.Errorf("a call that was left: got %v, want context.Canceled", err)
	}
}
