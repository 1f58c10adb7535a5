package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drawbridge-mcp/drawbridge/internal/freeport"
)

// TestMain makes the test binary the program itself, and the fake upstream that the
// scripts put behind it.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"drawbridge":   main,
		"stdio-server": stdioServer,
	})
}

// stdioServer is an upstream with one tool, one prompt and one resource. Its argument is
// a choice of one more tool, to which it adds hidden text; or it is "unenforced" for a
// tool with schemas that cannot be enforced whole.
func stdioServer() {
	server := mcp.NewServer(&mcp.Implementation{Name: "fake", Version: "1"}, nil)
	type arguments struct {
		Text string `json:"text"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Says it again."},
		func(_ context.Context, _ *mcp.CallToolRequest, in arguments) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "echo: " + in.Text}}},
				nil, nil
		})
	server.AddPrompt(&mcp.Prompt{Name: "greet"},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		})
	server.AddResource(&mcp.Resource{Name: "motd", URI: "note:motd"},
		func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
				URI:  "note:motd",
				Text: "welcome",
			}}}, nil
		})
	if slices.Equal(os.Args[1:], []string{"unenforced"}) {
		os.Args = os.Args[:1]
		server.AddTool(&mcp.Tool{
			Name: "invite", InputSchema: json.RawMessage(
				`{"type":"object","properties":{"to":{"type":"string","pattern":"^(?!\\.)\\S+@\\S+$"}}}`),
			OutputSchema: json.RawMessage(`{"type":"object","description":"` + strings.Repeat("x", 75<<10) +
				`"}`),
		}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "invited"}}}, nil
		})
	}
	for _, choice := range os.Args[1:] { // of one more tool, which no person sees whole
		server.AddTool(&mcp.Tool{
			Name: "paint",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"colour":{"enum":["` + choice +
				`\udb40\udc69"]}}}`),
		},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "painted"}}}, nil
			})
	}
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestScripts runs the stories of testdata/script with the program as it is installed.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"PORT", "OPERATOR"} {
				port, err := freeport.Take()
				if err != nil {
					return err
				}
				env.Setenv(name, strconv.Itoa(port))
			}
			for _, name := range []string{"clients.md", "revoke.md", "reference/commands.md"} {
				// opened here, so that the tests run again when it changes
				page, err := os.ReadFile("../../docs/" + name)
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(env.WorkDir, filepath.Base(name)), page,
					0o600); err != nil {
					return err
				}
			}
			env.Setenv("TMPDIR", env.WorkDir)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else with -race each command takes a second more
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":   cmdStatus,
			"eventual": cmdEventual,
			"fill":     cmdFill,
			"shell":    cmdShell,
			"setenv":   cmdSetenv,
			"pages":    cmdPages,
		},
	})
}

// TestHangupDuringStart sends SIGHUP to a gateway as soon as its port is taken, while it
// makes its many servers.
func TestHangupDuringStart(t *testing.T) {
	t.Parallel()
	text := minimal
	for i := range 300 {
		text += fmt.Sprintf("  box%d: {builtin: [calculate, current_time]}\n", i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	gateway, listen, log := startProgram(ctx, t, text, "0s")
	for !listens(ctx, listen) && ctx.Err() == nil {
		runtime.Gosched()
	}
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if err := gateway.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := gateway.Wait(); err != nil {
		t.Errorf("%v; log:\n%s", err, log.String())
	}
}

// startProgram starts the program with a config, to which it adds the addresses, and
// returns the one for clients and the log, which may be read when the program has ended.
// It does not wait until the program listens.
func startProgram(ctx context.Context, t *testing.T, config,
	drainDelay string,
) (program *exec.Cmd, listen string, log *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	listen, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	text := "listen: " + listen + "\noperator: 127.0.0.1:0\n" + config
	for name, content := range map[string]string{
		"drawbridge.yaml": text,
		"secret":          "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log = new(bytes.Buffer)
	program = exec.CommandContext(ctx, "drawbridge", "serve", "-config",
		filepath.Join(dir, "drawbridge.yaml"), "-drain-delay", drainDelay)
	program.Dir, program.Stderr = dir, log
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	return program, listen, log
}

func listens(ctx context.Context, address string) bool {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	return c.Close() == nil
}

const patience = 2 * time.Minute

// fetched returns the status and the body of a URL, 0 when nobody answers.
func fetched(url string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// until tries check until it holds.
func until(ts *testscript.TestScript, what string, check func() bool) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !check() {
		select {
		case <-tick.C:
		case <-late:
			ts.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// cmdStatus waits until a URL answers with a status: status 200 url [regexp of the body].
// With !, until the body stops matching.
func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: status code url [regexp]")
	}
	pattern := regexp.MustCompile(strings.Join(args[2:], " "))
	var status int
	var body string
	until(ts, strings.Join(args, " "), func() bool {
		status, body = fetched(args[1])
		return strconv.Itoa(status) == args[0] && pattern.MatchString(body) != neg
	})
	ts.Logf("%d %s", status, body)
}

// cmdEventual waits until a file matches a regular expression: eventual file regexp.
func cmdEventual(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: eventual file regexp")
	}
	pattern := regexp.MustCompile(args[1])
	until(ts, strings.Join(args, " "), func() bool {
		data, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && pattern.Match(data)
	})
}

// cmdFill writes a file of the script with its $VARIABLES expanded, at once as an editor
// does: fill from to.
func cmdFill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: fill from to")
	}
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	next := ts.MkAbs(args[1]) + ".next"
	ts.Check(os.WriteFile(next, []byte(text), 0o600))
	ts.Check(os.Rename(next, ts.MkAbs(args[1])))
}

// cmdShell runs the one line of a file that matches a regular expression in a shell, for
// stdout and stderr to match: shell file regexp.
func cmdShell(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: shell file regexp")
	}
	pattern := regexp.MustCompile("(?m)^.*" + args[1] + ".*$")
	line := pattern.FindString(ts.ReadFile(args[0]))
	if err := ts.Exec("sh", "-c", line); (err != nil) != neg {
		ts.Fatalf("%s: %v", line, err)
	}
}

// cmdSetenv puts a file's content into a variable: setenv NAME file.
func cmdSetenv(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: setenv NAME file")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}

// cmdPages fails unless a page of the documentation has the text of a file, word for
// word: pages PAGE FILE.
func cmdPages(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pages page file")
	}
	if !strings.Contains(ts.ReadFile(args[0]), ts.ReadFile(args[1])) {
		ts.Fatalf("%s has not the text of %s", args[0], args[1])
	}
}
