package interop_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	progressTool = "test_tool_with_progress"
	errorTool    = "test_error_handling"
	laterTool    = "later__calculate" // comes while the clients listen
)

// before and after are the config that a client connects under and the one that changes
// its list of tools.
func before(upstream string) string {
	return fmt.Sprintf(`tenants:
  acme: {servers: [go, later], rules: [{allow: ["*"]}], limits: %s}
servers:
  go: {url: %q, prefix: "", private_addresses: true}
`, generous, upstream)
}

func after(upstream string) string { return before(upstream) + "  later: {builtin: [calculate]}\n" }

func withoutLater(upstream string) string {
	return strings.Replace(before(upstream), "[go, later]", "[go]", 1)
}

// step is one line that a client from npm prints.
type step struct {
	Step     string
	Revision string
	Server   string
	Names    []string
	Progress []float64
	Text     string
	IsError  bool
}

func TestNpmClientsGoThroughTheirStory(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		modern   bool // upstream
		path     string
		command  []string // script and kind; address and token follow
		revision string
	}{
		{
			name: "first generation over Streamable HTTP", path: "/mcp",
			command: []string{"clients/v1.mjs", "http"}, revision: "2025-11-25",
		},
		{name: "first generation over HTTP+SSE", path: "/sse", command: []string{"clients/v1.mjs", "sse"}},
		{
			name: "second generation, legacy era", path: "/mcp", command: []string{"clients/v2.mjs", "legacy"},
			revision: "2025-11-25",
		},
		{
			name: "second generation, modern era", path: "/mcp",
			command: []string{"clients/v2.mjs", "2026-07-28"}, revision: "2026-07-28",
		},
		{
			name: "second generation, modern era, before a modern upstream", modern: true, path: "/mcp",
			command: []string{"clients/v2.mjs", "2026-07-28"}, revision: "2026-07-28",
		},
		{
			name: "first generation before a modern upstream", modern: true, path: "/mcp",
			command: []string{"clients/v1.mjs", "http"}, revision: "2025-11-25",
		},
	}
	binary, _ := node(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			upstream := goUpstream(t, test.modern)
			g := serve(t, withoutLater(upstream))
			arguments := append(slices.Clone(test.command), "http://"+g.addr+test.path, g.token(t))
			story := follow(t, exec.CommandContext(t.Context(), binary, arguments...),
				func() { g.configure(t, after(upstream)) })
			story.check(t, test.revision)
		})
	}
}

// follow runs a client, calls change when it waits for a changed list, and returns its
// steps by name.
func follow(t *testing.T, cmd *exec.Cmd, change func()) steps {
	t.Helper()
	var complaints output
	cmd.Stderr = &complaints
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(2*patient, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	told := steps{}
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		var s step
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Errorf("the client printed %q: %v", lines.Text(), err)
			continue
		}
		told[s.Step] = s
		if s.Step == "waiting" {
			change()
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the client ended with %v after %v\n%s", err, told, tail(complaints.String(), 4000))
	}
	return told
}

type steps map[string]step

func (s steps) check(t *testing.T, revision string) {
	t.Helper()
	if got := s["connected"]; got.Server != "drawbridge" || got.Revision != revision {
		t.Errorf("connected to %q at revision %q, want drawbridge at %q", got.Server, got.Revision, revision)
	}
	if names := s["tools"].Names; !slices.Contains(names, progressTool) || slices.Contains(names, laterTool) {
		t.Errorf("tools at first = %v, want %s and not %s", names, progressTool, laterTool)
	}
	// The clients drop a notification that they read together with the result, so the
	// last one may be missing.
	if got, want := s["progress"].Progress, []float64{0, 50, 100}; len(got) < 2 ||
		!slices.Equal(got, want[:len(got)]) {
		t.Errorf("progress = %v, want %v", got, want)
	}
	if got := s["error"]; !got.IsError || got.Text == "" {
		t.Errorf("%s answered isError %v with text %q, want a tool error", errorTool, got.IsError, got.Text)
	}
	if names := s["changed"].Names; !slices.Contains(names, laterTool) {
		t.Errorf("tools after the change = %v, want %s among them", names, laterTool)
	}
}

func TestGoClientGoesThroughItsStory(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			upstream := goUpstream(t, false)
			g := serve(t, withoutLater(upstream))
			goStory(t, g, revision, func() { g.configure(t, after(upstream)) }).check(t, revision)
		})
	}
}

func goStory(t *testing.T, g *gateway, revision string, change func()) steps {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
	defer cancel()
	changed := make(chan struct{}, 8)
	var (
		mu       sync.Mutex
		progress []float64
	)
	client := sdk.NewClient(&sdk.Implementation{Name: "interop-go", Version: "1.0.0"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			progress = append(progress, r.Params.Progress)
		},
	})
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint:   g.url,
		HTTPClient: withToken(g.token(t)),
	},
		&sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	told := steps{"connected": {
		Server:   session.InitializeResult().ServerInfo.Name,
		Revision: session.InitializeResult().ProtocolVersion,
	}}
	told["tools"] = step{Names: goTools(ctx, t, session)}

	params := &sdk.CallToolParams{Name: progressTool, Arguments: map[string]any{}}
	params.SetProgressToken("go-progress")
	if _, err := session.CallTool(ctx, params); err != nil {
		t.Fatal(err)
	}
	// The SDK hands notifications to handlers in its own time, the last one after the
	// result.
	eventually(t, "three progress notifications arrive", func() bool {
		mu.Lock()
		defer mu.Unlock()
		told["progress"] = step{Progress: slices.Clone(progress)}
		return len(progress) >= 3
	})

	failed, err := session.CallTool(ctx, &sdk.CallToolParams{Name: errorTool, Arguments: map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := failed.Content[0].(*sdk.TextContent)
	told["error"] = step{IsError: failed.IsError, Text: text.Text}

	change()
	select {
	case <-changed:
	case <-ctx.Done():
		t.Fatal("no list_changed arrived")
	}
	told["changed"] = step{Names: goTools(ctx, t, session)}
	return told
}

func goTools(ctx context.Context, t *testing.T, session *sdk.ClientSession) []string {
	t.Helper()
	var names []string
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// withToken returns a client that sends the token with each request.
func withToken(token string) *http.Client {
	return &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+token)
		return http.DefaultTransport.RoundTrip(r)
	})}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The Inspector's command line makes one request a run, so it cannot wait for a changed
// list: it sees the list before and after.
func TestInspectorListsAndCalls(t *testing.T) {
	t.Parallel()
	binary, modules := node(t)
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			upstream := goUpstream(t, false)
			g := serve(t, withoutLater(upstream))
			token, home := g.token(t), t.TempDir()
			inspect := func(arguments ...string) string {
				ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
				defer cancel()
				cmd := exec.CommandContext(ctx, filepath.Join(modules, ".bin", "mcp-inspector"),
					append([]string{
						"--cli", "--server-url", g.url, "--transport", "http", "--header",
						"Authorization: Bearer " + token, "--protocol-era", era,
					}, arguments...)...)
				cmd.Env = []string{"PATH=" + filepath.Dir(binary) + ":" + os.Getenv("PATH"), "HOME=" + home}
				out, err := cmd.Output()
				if err != nil && len(out) == 0 {
					t.Fatalf("mcp-inspector %v: %v", arguments, err)
				}
				return string(out)
			}
			if out := inspect("--method", "tools/list"); !strings.Contains(out, progressTool) ||
				strings.Contains(out, laterTool) {
				t.Errorf("tools/list = %s, want %s and not %s", tail(out, 500), progressTool, laterTool)
			}
			if out := inspect("--method", "tools/call", "--tool-name",
				"test_simple_text"); !strings.Contains(out, "This is a simple text response for testing.") {
				t.Errorf("test_simple_text = %s", out)
			}
			if out := inspect("--method", "tools/call", "--tool-name", progressTool); !strings.Contains(out,
				`"content"`) {
				t.Errorf("%s = %s", progressTool, out)
			}
			if out := inspect("--method", "tools/call", "--tool-name", errorTool); !strings.Contains(out,
				`"isError": true`) {
				t.Errorf("%s = %s, want isError", errorTool, out)
			}
			g.configure(t, after(upstream))
			eventually(t, "the new tool is listed", func() bool {
				return strings.Contains(inspect("--method", "tools/list"), laterTool)
			})
		})
	}
}
