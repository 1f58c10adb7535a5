package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// sdkServer is a server of the official SDK.
func sdkServer() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "counterpart", Version: "1"}, &sdk.ServerOptions{
		PageSize:           2,
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, req *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{
				req.Params.Ref.Name + req.Params.Ref.URI + ":" + req.Params.Argument.Value,
			}}}, nil
		},
	})
	addPrompt := func(name string) {
		server.AddPrompt(&sdk.Prompt{
			Name:      name,
			Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}},
		},
			func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
				return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
					{Role: "user", Content: &sdk.TextContent{Text: "hello " + req.Params.Arguments["who"]}},
				}}, nil
			})
	}
	read := func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{
			URI:  req.Params.URI,
			Text: "text of " + req.Params.URI,
		}}}, nil
	}
	for _, name := range []string{"a", "b", "c"} {
		addPrompt(name)
		server.AddResource(&sdk.Resource{Name: name, URI: "memo://host/" + name}, read)
	}
	server.AddResourceTemplate(&sdk.ResourceTemplate{Name: "any", URITemplate: "memo://host/{name}"}, read)
	object := json.RawMessage(
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)
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
			// Where answers are JSON it goes to a stream that may not be open yet, and
			// that is not what is tested.
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: float64(i),
				Message: fmt.Sprint("step ", i),
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
			return nil, ctx.Err()
		case <-time.After(
			3 * time.Second): // the cancellation may have come before the call, on another connection
			return say("waited") // the SDK panics where there is neither a result nor an error
		}
	})
	add("grow", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		server.AddTool(&sdk.Tool{Name: "grown", InputSchema: object},
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return say("I am new")
			})
		return say("ok")
	})
	add("touch", func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var arguments struct{ URI string }
		if err := json.Unmarshal(req.Params.Arguments, &arguments); err != nil {
			return nil, err
		}
		if err := server.ResourceUpdated(ctx,
			&sdk.ResourceUpdatedNotificationParams{URI: arguments.URI}); err != nil {
			return nil, err
		}
		return say("ok")
	})
	add("learn", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		addPrompt("learned")
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

// TestAgainstOfficialSDK runs the whole life of a connection against the official SDK's
// server.
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
			if got := len(r.tools()); got != 7 {
				t.Errorf("tools of all pages: got %v, want 7", r.tools())
			}
			if got := r.must("echo",
				`{"name":"x","arguments":{"region":"Straße","n":[1,2.50]}}`); got != `{"content":[{"type":"text","text":"{\"region\":\"Straße\",\"n\":[1,2.50]}"}]}` &&
				text(parse(t, got)) != `{"region":"Straße","n":[1,2.50]}` {
				t.Errorf("echo: got %s", got)
			}
			sdkProgress(t, r, test.name != "HTTP with sessions, JSON")
			if got := r.must("fail", `{"name":"x"}`); string(parse(t, got).Value("isError")) != "true" {
				t.Errorf("a tool's error: got %s, want isError", got)
			}
			sdkCancel(t, r)
			sdkItems(t, r)
			sdkFollows(t, r)
			r.must("learn", `{"name":"x","arguments":{}}`)
			r.until("the new prompt is there",
				func() bool { return slices.Contains(r.names(), "prompt learned") })
			r.must("grow", `{"name":"x","arguments":{}}`)
			r.untilTool("grown")
			if got := text(parse(t, r.must("grown", `{"name":"x"}`))); got != "I am new" {
				t.Errorf("the new tool: got %q", got)
			}
		})
	}
}

// lateSDK returns sdkServer on a machine so busy that it ends subscriptions late.
func lateSDK() *sdk.Server {
	server := sdkServer()
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method != mcp.MethodListen {
				return next(ctx, method, req)
			}
			late, end := context.WithCancel(context.WithoutCancel(ctx))
			defer end()
			context.AfterFunc(ctx, func() { time.AfterFunc(300*time.Millisecond, end) })
			return next(late, method, req)
		}
	})
	return server
}

// TestSubscriptionThatEndsLateLeavesTheNext follows a resource of a child for a while.
// When the child ends what was subscribed to for that, it forgets all subscriptions of
// its only session, and must be asked for those of lists again, not too early.
func TestSubscriptionThatEndsLateLeavesTheNext(t *testing.T) {
	t.Parallel()
	r := start(t, command("sdk-late"))
	r.untilUp()
	r.untilTool("grow")
	sdkItems(t, r)
	sdkFollows(t, r)
	r.must("wait", `{"name":"x","arguments":{}}`) // three seconds there
	r.must("grow", `{"name":"x","arguments":{}}`)
	r.untilTool("grown")
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
	result, err := r.call(t.Context(), "progress", `{"name":"x","_meta":{"progressToken":"mine"}}`,
		func(n mcp.Notification) {
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

// sdkItems lists and uses prompts, resources and templates, and completes arguments.
func sdkItems(t *testing.T, r *rig) {
	t.Helper()
	r.untilNames("prompt a", "prompt b", "prompt c", "resource memo://host/a", "resource memo://host/b",
		"resource memo://host/c", "template memo://host/{name}")
	if got := r.last(); got.Prompts != 3 || got.Resources != 3 || got.Templates != 1 ||
		len(got.Refused) != 0 {
		t.Errorf("status: got %+v, want the counts", got)
	}
	for _, step := range []struct {
		item                   *registry.Item
		method, params, member string
		want                   string
	}{
		{
			r.prompt("b"), "prompts/get", `{"arguments":{"who":"Straße"}}`, "messages",
			`[{"content":{"type":"text","text":"hello Straße"},"role":"user"}]`,
		},
		{
			r.resource("memo://host/c"), "resources/read", `{}`, "contents",
			`[{"uri":"memo://host/c","text":"text of memo://host/c"}]`,
		},
		{
			r.resource("memo://host/z"), "resources/read", `{}`, "contents",
			`[{"uri":"memo://host/z","text":"text of memo://host/z"}]`,
		},
		{
			r.prompt("a"), "completion/complete",
			`{"ref":{"type":"ref/prompt","name":"?"},"argument":{"name":"who","value":"x"}}`, "completion",
			`{"values":["a:x"]}`,
		},
		{
			r.view().Templates[0], "completion/complete",
			`{"ref":{"type":"ref/resource","uri":"?"},"argument":{"name":"name","value":"x"}}`,
			"completion", `{"values":["memo://host/{name}:x"]}`,
		},
	} {
		result, err := r.use(step.item, request(t, step.params, nil), step.method)
		if got := string(result.Value(step.member)); err != nil || got != step.want {
			t.Errorf("%s: got %s, %v (%s), want %s", step.method, got, err, cause(err), step.want)
		}
	}
	_, err := r.use(r.resource("other://host/z"), request(t, `{}`, nil), "resources/read")
	if kindOf(mcp.Object{}, err) != "error" {
		t.Errorf("an unknown resource: got %v (%s), want the server's error", err, cause(err))
	}
}

// sdkFollows subscribes to a resource and is told of its change, and of no other's.
func sdkFollows(t *testing.T, r *rig) {
	t.Helper()
	w := newWatcher(t)
	if err := w.follow(r, "t", "memo://host/a"); err != nil {
		t.Fatalf("Subscribe: %v (%s)", err, cause(err))
	}
	r.must("touch", `{"arguments":{"uri":"memo://host/b"}}`)
	r.must("touch", `{"arguments":{"uri":"memo://host/a"}}`)
	if got := await(t, w.got); got != "memo://host/a" {
		t.Errorf("updated: got %q, want the resource that is followed", got)
	}
	w.cancel()
}
