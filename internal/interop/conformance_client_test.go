package interop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// parentAddress in the environment is where the suite's client under test hands its job
// to.
const parentAddress = "DRAWBRIDGE_INTEROP_PARENT"

// job is one scenario of the suite's client side: a mock upstream and what the client is
// told.
type job struct {
	URL, Scenario, Context string

	done chan int // exit code
}

// clientChecks are what the Go SDK's client passes by itself, by revision and scenario;
// but for one check of request-metadata, which is passed over: who only lists can be
// asked for nothing and so declares no roots.
var clientChecks = map[string]map[string]int{
	"2025-11-25": {
		"initialize": 1, "tools_call": 2, "elicitation-sep1034-client-defaults": 5, "sse-retry": 3,
		"json-schema-2020-12-preservation": 9,
	},
	modernRevision: {
		"tools_call": 2, "request-metadata": 5, "sep-2322-client-request-state": 5,
		"http-standard-headers": 9, "http-custom-headers": 18,
		"http-invalid-tool-headers": 12, "json-schema-ref-no-deref": 1, "json-schema-2020-12-preservation": 9,
	},
}

// The suite tests clients: it starts one per scenario and looks at what reaches its mock
// servers. The client under test is the gateway, with a driver before it that does what
// the scenario asks for.
func TestConformanceClient(t *testing.T) {
	t.Parallel()
	node(t) // says whether it is there before anything starts
	drivers := map[string]func(*testing.T, *gateway,
		*job) error{"modern driver": modernDriver, "legacy driver": legacyDriver}
	for revision, least := range clientChecks {
		for name, driver := range drivers {
			t.Run(revision+" upstream, "+name, func(t *testing.T) {
				t.Parallel()
				out := t.TempDir()
				finished := make(chan error, 1)
				jobs := takeJobs(t)
				command := clientUnderTest(t, jobs.url)
				go func() { // ends with the suite, which has a limit of its own
					finished <- suite(t, 2*patient, "client", "--command", command, "--requirements",
						revision, "-o", out,
						"--timeout", "180000", "--expected-failures", "testdata/conformance/client-oauth.yml")
				}()
				for running := true; running; {
					select {
					case j := <-jobs.all:
						t.Run(j.Scenario, func(t *testing.T) { j.run(t, revision, driver) })
					case err := <-finished:
						running = false
						if err != nil {
							t.Error(err)
						}
					}
				}
				judgeClient(t, readChecks(t, out, ""), least)
			})
		}
	}
}

// judgeClient is judge for the client side, of which the OAuth flows are left out.
func judgeClient(t *testing.T, got map[string][]check, least map[string]int) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if strings.HasPrefix(name, "auth/") {
			continue
		}
		passed, failed := count(got[name])
		for id, message := range failed {
			t.Errorf("%s: check %s failed: %s", name, id, message)
		}
		t.Logf("%s: %d checks passed", name, passed)
		if passed < least[name] || least[name] == 0 {
			t.Errorf("%s: %d checks passed, want at least %d", name, passed, least[name])
		}
	}
	for name := range least {
		if got[name] == nil {
			t.Errorf("the suite did not run %s", name)
		}
	}
}

// clientUnderTest writes the program that the suite starts: this test binary as one that
// hands over its job.
func clientUnderTest(t *testing.T, parent string) string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "client")
	script := fmt.Sprintf(
		"#!/bin/sh\ncase $MCP_CONFORMANCE_SCENARIO in auth/*) echo no OAuth code flow >&2; exit 9;; esac\n%s=job %s=%q exec %q \"$@\"\n", childRole, parentAddress, parent, binary)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// handOver is the child that the suite started: it waits for the test to do the job and
// returns its exit code.
func handOver() int {
	body, err := json.Marshal(job{
		URL:      os.Args[len(os.Args)-1],
		Scenario: os.Getenv("MCP_CONFORMANCE_SCENARIO"), Context: os.Getenv("MCP_CONFORMANCE_CONTEXT"),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
		os.Getenv(parentAddress), bytes.NewReader(body))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 1
	}
	return 0
}

// jobs are what the suite's clients hand over. They are done one after another, whatever
// the suite starts at once.
type jobs struct {
	url string
	all chan *job
}

func takeJobs(t *testing.T) jobs {
	t.Helper()
	all := make(chan *job)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		j := &job{done: make(chan int, 1)}
		if err := json.NewDecoder(r.Body).Decode(j); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		select {
		case all <- j:
		case <-r.Context().Done():
			return
		}
		select {
		case code := <-j.done:
			if code != 0 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	return jobs{server.URL, all}
}

// run puts a gateway before the mock upstream and lets the driver do its part. A mock
// upstream of 2026-07-28 is not asked whether it has an older side: it holds a handshake
// against the rules of its revision.
func (j *job) run(t *testing.T, revision string, driver func(*testing.T, *gateway, *job) error) {
	code := 1
	defer func() { j.done <- code }()
	named := map[string]string{modernRevision: ", revision: " + modernRevision}
	g := serve(t, fmt.Sprintf(`tenants:
  acme: {servers: [mock], rules: [{allow: ["*", "prompt:*", "resource:*"]}], limits: %s}
servers:
  mock: {url: %q, prefix: "", private_addresses: true%s}
`, generous, j.URL, named[revision]))
	t.Cleanup(g.kill) // others look at how it stops
	if j.Scenario == "http-invalid-tool-headers" {
		j.onlyValidTools(t, g)
	}
	if err := driver(t, g, j); err != nil {
		t.Errorf("%s: %v", j.Scenario, err)
		return
	}
	code = 0
}

// onlyValidTools looks at the list itself, because an SDK would leave out tools with
// invalid headers too.
func (j *job) onlyValidTools(t *testing.T, g *gateway) {
	t.Helper()
	token := g.mint(who{tenant: "acme", subject: "alice"})
	eventually(t, "the mock's tools are listed", func() bool {
		return len(g.speak(t, token, modernRevision).names(t)) > 0
	})
	for _, revision := range []string{"2025-11-25", modernRevision} {
		if got := g.speak(t, token, revision).names(t); !slices.Equal(got, []string{"valid_tool"}) {
			t.Errorf("%s: tools = %v, want those without an invalid x-mcp-header: valid_tool", revision, got)
		}
	}
}

// modernDriver is the Go SDK's own client for this suite, which speaks the newest
// revision that it can.
func modernDriver(t *testing.T, g *gateway, j *job) error {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	program := built(t, "everything-client",
		"github.com/modelcontextprotocol/go-sdk/conformance/everything-client")
	cmd := exec.CommandContext(ctx, program, tokenProxy(t, g)+"/mcp")
	cmd.Env = append(os.Environ(), "MCP_CONFORMANCE_SCENARIO="+j.Scenario, "MCP_CONFORMANCE_CONTEXT="+
		j.Context)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, tail(string(out), 2000))
	}
	return nil
}

// legacyDriver does the same as a client that speaks 2025-11-25.
func legacyDriver(t *testing.T, g *gateway, j *job) error {
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	client := sdk.NewClient(&sdk.Implementation{Name: "legacy-driver", Version: "1.0.0"}, &sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			if j.Scenario == "elicitation-sep1034-client-defaults" {
				return &sdk.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
			}
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"confirmed": true}}, nil
		},
	})
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint:   g.url,
		HTTPClient: withToken(g.token(t)),
	},
		&sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		return err
	}
	defer session.Close()
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	calls, err := j.calls(tools.Tools)
	if err != nil {
		return err
	}
	for _, c := range calls {
		if _, err := session.CallTool(ctx,
			&sdk.CallToolParams{Name: c.Name, Arguments: c.Arguments}); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	if j.Scenario != "http-standard-headers" {
		return nil
	}
	return useAll(ctx, session)
}

// toolCall is a call that a scenario asks for.
type toolCall struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

// calls are the tool calls that the scenario wants to see.
func (j *job) calls(tools []*sdk.Tool) ([]toolCall, error) {
	var told struct {
		ToolCalls []toolCall `json:"toolCalls"`
	}
	if j.Context != "" {
		if err := json.Unmarshal([]byte(j.Context), &told); err != nil {
			return nil, err
		}
	}
	none := map[string]any{}
	switch j.Scenario {
	case "tools_call":
		return []toolCall{{"add_numbers", map[string]any{"a": 5, "b": 3}}}, nil
	case "elicitation-sep1034-client-defaults":
		return []toolCall{{"test_client_elicitation_defaults", none}}, nil
	case "sse-retry":
		return []toolCall{{"test_reconnection", none}}, nil
	case "sep-2322-client-request-state":
		return []toolCall{
			{"test_mrtr_echo_state", none},
			{"test_mrtr_no_state", none},
			{"test_mrtr_unrelated", none},
			{"test_mrtr_no_result_type", none},
		}, nil
	case "http-custom-headers":
		return told.ToolCalls, nil
	case "http-invalid-tool-headers":
		return []toolCall{{"valid_tool", map[string]any{"region": "us-west1"}}}, nil
	case "http-standard-headers":
		return []toolCall{{tools[0].Name, none}}, nil
	case "json-schema-2020-12-preservation":
		for _, one := range tools {
			if one.Name == "json_schema_2020_12_tool" {
				return []toolCall{{"json_schema_echo", map[string]any{"schema": one.InputSchema}}}, nil
			}
		}
		return nil, errors.New("json_schema_2020_12_tool is not listed")
	}
	return nil, nil
}

// useAll reads the first resource and gets the first prompt. The mock server gives no
// contents, which is not a resource.
func useAll(ctx context.Context, session *sdk.ClientSession) error {
	resources, err := session.ListResources(ctx, nil)
	if err != nil {
		return err
	}
	// only that it asks counts
	_, _ = session.ReadResource(ctx, &sdk.ReadResourceParams{URI: resources.Resources[0].URI})
	prompts, err := session.ListPrompts(ctx, nil)
	if err != nil {
		return err
	}
	_, err = session.GetPrompt(ctx, &sdk.GetPromptParams{Name: prompts.Prompts[0].Name})
	return err
}
