//nolint:staticcheck // what 2026-07-28 deprecates is tried too
package interop_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// notesFolder in the environment is where a stdio server of the matrix finds what it is
// to do besides answering.
const notesFolder = "DRAWBRIDGE_INTEROP_NOTES"

const (
	noteURI      = "note://one"
	noteTemplate = "note://{name}/page"
	noteText     = "what the note says"
	// A picture of one red point.
	redPoint = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)

// matrixServer offers the same of every feature, whatever it is served over. A file
// grow-X in the folder adds the tool grown-X, a file touch-X tells that the note was
// changed, and a cancelled call of hang leaves a file cancelled-X: what happens outside
// of calls must not depend on which process serves which session.
func matrixServer(ctx context.Context, notes string, versions ...string) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "matrix", Version: "1"}, &sdk.ServerOptions{
		SupportedProtocolVersions: versions,
		SubscribeHandler:          func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler:        func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			var values []string
			for _, name := range []string{"ann", "anna", "bob"} {
				if r.Params.Ref.Name == "greet" && strings.HasPrefix(name, r.Params.Argument.Value) {
					values = append(values, name)
				}
			}
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{
				Values: values,
				Total:  len(values),
			}}, nil
		},
	})
	plainTools(server, notes)
	askingTools(server)
	read := func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{
			URI:      r.Params.URI,
			MIMEType: "text/plain", Text: noteText,
		}}}, nil
	}
	server.AddResource(&sdk.Resource{Name: "one", URI: noteURI, MIMEType: "text/plain"}, read)
	server.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "page", URITemplate: noteTemplate,
		MIMEType: "text/plain",
	}, read)
	server.AddPrompt(&sdk.Prompt{
		Name:      "greet",
		Arguments: []*sdk.PromptArgument{{Name: "who", Required: true}},
	},
		func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{
				{Role: "user", Content: &sdk.TextContent{Text: "Greet " + r.Params.Arguments["who"] + "."}},
				{Role: "user", Content: &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{
					URI:  noteURI,
					Text: noteText,
				}}},
			}}, nil
		})
	go followNotes(ctx, server, notes)
	return server
}

// marked is the argument of most tools: who calls.
type marked struct {
	Marker string `json:"marker"`
}

func says(format string, arguments ...any) (*sdk.CallToolResult, any, error) {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format,
		arguments...)}}}, nil, nil
}

func plainTools(server *sdk.Server, notes string) {
	sdk.AddTool(server, &sdk.Tool{Name: "echo"}, func(_ context.Context, _ *sdk.CallToolRequest,
		in marked,
	) (*sdk.CallToolResult, any, error) {
		return says("echo %s", in.Marker)
	})
	sdk.AddTool(server, &sdk.Tool{Name: "picture"}, func(context.Context, *sdk.CallToolRequest,
		marked,
	) (*sdk.CallToolResult, any, error) {
		data, err := base64.StdEncoding.DecodeString(redPoint)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{
			Data:     data,
			MIMEType: "image/png",
		}}}, nil, err
	})
	type weather struct {
		Celsius float64 `json:"celsius"`
		Marker  string  `json:"marker"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "measure"}, func(_ context.Context, _ *sdk.CallToolRequest,
		in marked,
	) (*sdk.CallToolResult, weather, error) {
		return nil, weather{21.5, in.Marker}, nil
	})
	sdk.AddTool(server, &sdk.Tool{Name: "climb"}, func(ctx context.Context, r *sdk.CallToolRequest,
		in marked,
	) (*sdk.CallToolResult, any, error) {
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3,
				Message: in.Marker,
			}); err != nil {
				return nil, nil, err
			}
			select { // some clients drop what they read together with the result
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
		return says("climbed")
	})
	sdk.AddTool(server, &sdk.Tool{Name: "speak"}, func(ctx context.Context, r *sdk.CallToolRequest,
		in marked,
	) (*sdk.CallToolResult, any, error) {
		if err := r.Session.Log(ctx, &sdk.LoggingMessageParams{
			Level: "warning", Logger: "matrix",
			Data: in.Marker,
		}); err != nil {
			return nil, nil, err
		}
		return says("spoke")
	})
	sdk.AddTool(server, &sdk.Tool{Name: "hang"}, func(ctx context.Context, _ *sdk.CallToolRequest,
		in marked,
	) (*sdk.CallToolResult, any, error) {
		if err := leave(notes, "hanging-"+in.Marker); err != nil {
			return nil, nil, err
		}
		<-ctx.Done()
		return nil, nil, errors.Join(ctx.Err(), leave(notes, "cancelled-"+in.Marker))
	})
}

// askingTools ask in the form of 2026-07-28; before clients of older revisions the SDK
// asks in the middle of the call.
func askingTools(server *sdk.Server) {
	sdk.AddTool(server, &sdk.Tool{Name: "ask_name"}, func(_ context.Context, r *sdk.CallToolRequest,
		in marked,
	) (*sdk.CallToolResult, any, error) {
		if answer, ok := r.Params.InputResponses["name"].(*sdk.ElicitResult); ok {
			return says("%s is %s %v", in.Marker, answer.Action, answer.Content["name"])
		}
		return asks("name", &sdk.ElicitParams{
			Message: "name of " + in.Marker,
			RequestedSchema: map[string]any{
				"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
			},
		})
	})
	sdk.AddTool(server, &sdk.Tool{Name: "ask_model"}, func(_ context.Context, r *sdk.CallToolRequest,
		in marked,
	) (*sdk.CallToolResult, any, error) {
		if answer, ok := r.Params.InputResponses["model"].(*sdk.CreateMessageWithToolsResult); ok {
			text, _ := answer.Content[0].(*sdk.TextContent)
			return says("%s", text.Text)
		}
		return asks("model", &sdk.CreateMessageParams{
			MaxTokens: 10, Messages: []*sdk.SamplingMessage{{
				Role:    "user",
				Content: &sdk.TextContent{Text: in.Marker},
			}},
		})
	})
	sdk.AddTool(server, &sdk.Tool{Name: "ask_roots"}, func(_ context.Context, r *sdk.CallToolRequest,
		_ marked,
	) (*sdk.CallToolResult, any, error) {
		if answer, ok := r.Params.InputResponses["roots"].(*sdk.ListRootsResult); ok {
			return says("%s", answer.Roots[0].URI)
		}
		return asks("roots", &sdk.ListRootsParams{})
	})
}

func asks(key string, question sdk.InputRequest) (*sdk.CallToolResult, any, error) {
	return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{key: question}}, nil, nil
}

// leave makes an empty file.
func leave(folder, name string) error { return os.WriteFile(filepath.Join(folder, name), nil, 0o600) }

// followNotes does what new files in the folder say until ctx ends.
func followNotes(ctx context.Context, server *sdk.Server, notes string) {
	done := make(map[string]bool)
	for ticker := time.NewTicker(25 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-ticker.C:
		}
		entries, _ := os.ReadDir(notes) // the folder goes when the test ends
		for _, entry := range entries {
			what, marker, _ := strings.Cut(entry.Name(), "-")
			if done[entry.Name()] {
				continue
			}
			done[entry.Name()] = true
			switch what {
			case "grow":
				sdk.AddTool(server, &sdk.Tool{Name: "grown-" + marker},
					func(context.Context, *sdk.CallToolRequest, marked) (*sdk.CallToolResult, any, error) {
						return says("grown")
					})
			case "touch":
				// a session that is gone needs no news
				_ = server.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: noteURI})
			}
		}
	}
}

// legacyVersions are those that the Go SDK negotiates over Streamable HTTP and stdio when
// it does not know the newest.
var legacyVersions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// matrixChild serves over stdio; the role is matrix-legacy or matrix-modern.
func matrixChild(role string) int {
	versions := legacyVersions
	if role == "matrix-modern" {
		versions = []string{modernRevision}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := matrixServer(ctx, os.Getenv(notesFolder), versions...).Run(ctx, &sdk.StdioTransport{})
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// abrupt serves on loopback until the test ends, and then waits for nobody: some handlers
// of the SDK outlive their client.
func abrupt(t *testing.T, handler http.Handler) (url string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Close
	}()
	t.Cleanup(func() {
		_ = server.Close() // the test is over
		<-done
	})
	return "http://" + listener.Addr().String()
}

// matrixUpstream is one way to reach the server of the matrix.
type matrixUpstream struct {
	name   string // of the servers entry
	title  string
	modern bool
	entry  string // of the config
	url    string // without the gateway; none for stdio
	notes  string
}

// matrixUpstreams starts them all.
func matrixUpstreams(t *testing.T) []matrixUpstream {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	over := func(notes string, handler func(func(*http.Request) *sdk.Server) http.Handler,
		versions ...string,
	) string {
		server := matrixServer(t.Context(), notes, versions...)
		return abrupt(t, handler(func(*http.Request) *sdk.Server { return server }))
	}
	all := []matrixUpstream{
		{name: "sse", title: "HTTP+SSE 2024-11-05"},
		{name: "web", title: "Streamable HTTP 2025-11-25"},
		{name: "child", title: "stdio 2025-11-25"},
		{name: "newweb", title: "Streamable HTTP 2026-07-28", modern: true},
		{name: "newchild", title: "stdio 2026-07-28", modern: true},
	}
	for i := range all {
		up := &all[i]
		up.notes = t.TempDir()
		switch up.name {
		case "sse":
			up.url = over(
				up.notes, func(
					get func(*http.Request) *sdk.Server,
				) http.Handler {
					return sdk.NewSSEHandler(get, nil)
				}, "2024-11-05")
			up.entry = fmt.Sprintf("{url: %q, type: sse, private_addresses: true}", up.url)
		case "web", "newweb":
			versions := legacyVersions
			if up.modern {
				versions = []string{modernRevision}
			}
			up.url = over(up.notes, func(get func(*http.Request) *sdk.Server) http.Handler {
				return sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{
					Stateless:                    up.modern,
					PropagateRequestCancellation: up.modern,
				})
			}, versions...)
			up.entry = private(up.url)
		default:
			role := "matrix-legacy"
			if up.modern {
				role = "matrix-modern"
			}
			up.entry = fmt.Sprintf("{command: %q, env: {%s: %s, %s: %q}}", binary, childRole, role,
				notesFolder, up.notes)
		}
	}
	return all
}
