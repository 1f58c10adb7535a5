package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// issuesConfig writes a config with the issue tracker at that address, and its document,
// and returns the config's path.
func issuesConfig(t *testing.T, address, include string) string {
	t.Helper()
	dir := t.TempDir()
	document, err := os.ReadFile("internal/config/testdata/issues.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const secret = "f3b1c0a9e8d7c6b5a4938271605f4e3d2c1b0a99"
	text := minimal +
		"  api: {openapi: api.yaml, base_url: \"" + address + "\", include: " + include +
		", headers: {Authorization: \"Bearer ${SECRET}\"}, timeout: 5s, tool_timeouts: {create: 9s}, private_addresses: true}\n"
	for name, data := range map[string][]byte{
		"drawbridge.yaml": []byte(text), "secret": []byte(secret),
		"api.yaml": document,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "drawbridge.yaml")
}

func TestAnAPIOfTheConfigBecomesTools(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Write(mcp.NewObject(
			mcp.Member{Name: "asked", Value: mcp.String(r.Method + " " + r.RequestURI)},
			mcp.Member{
				Name:  "known",
				Value: mcp.Bool(r.Header.Get("Authorization") == "Bearer hunter2-hunter2"),
			},
			mcp.Member{Name: "body", Value: body},
		).JSON())
	}))
	t.Cleanup(api.Close)
	cfg, err := config.Load(issuesConfig(t, api.URL+"/v1", `["*"]`), testEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	s := cfg.Servers[1]
	want := []string{
		`server api: operation "list": cookie parameter "session" is left out: no argument may set a cookie`,
		`server api: operation "attach" cannot be a tool: its body is neither JSON nor a form`,
	}
	if !slices.Equal(s.API.Notes, want) {
		t.Errorf("left out: got %q, want %q", s.API.Notes, want)
	}
	catalogue := registry.New()
	f := newFleet(catalogue, metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	f.apply(t.Context(), []config.Server{s})
	if warnings := f.warnings(); len(warnings) != 1 ||
		!strings.Contains(warnings[0], `"attach" is left out`) || !f.tried() {
		t.Errorf("got warnings %q", warnings)
	}
	tool, err := catalogue.Catalogue().View([]string{"api"}).Lookup("api__create")
	if err != nil || tool.Timeout != 9*time.Second {
		t.Fatalf("got %v, error %v", tool, err)
	}
	result, err := tool.Call(t.Context(), &registry.Call{
		Params: mcp.NewObject(mcp.Member{Name: "arguments", Value: mcp.RawJSON(`{"body":{"title":"x"}}`)}),
		Notify: func(context.Context, mcp.Notification) error { return nil },
	})
	const answer = `{"asked":"POST /v1/issues","known":true,"body":{"title":"x"}}`
	if got := string(result.Value("structuredContent")); got != answer || err != nil {
		t.Errorf("got %s, error %v, want %s", got, err, answer)
	}
	f.close()
	if tools := catalogue.Catalogue().View([]string{"api"}).Tools; len(tools) > 0 {
		t.Errorf("%d tools are left after the end", len(tools))
	}
}

// TestExplainSaysWhyAnItemIsLeftOut asks for an operation that cannot become a tool.
func TestExplainSaysWhyAnItemIsLeftOut(t *testing.T) {
	t.Setenv("SECRET", "hunter2-hunter2")
	file := issuesConfig(t, "https://api.example.com", `["*"]`)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("servers: [files]"), []byte("servers: [files, api]"), 1)
	if err = os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	code, said := operate(t, "explain", "-config", file, "-tenant", "acme", "-subject", "alice", "-tool", "api__attach")
	const want = "change    the server api has it, and it is left out: tool attach: operation, " +
		"its body is neither JSON nor a form\n"
	if code != exitFailure || !strings.HasSuffix(said, want) {
		t.Errorf("got exit %d and %s, want it to end in %s", code, said, want)
	}
}

// TestAChangedDocumentIsNoticed shows that a document is watched as the files of keys
// are, and that what it says anew is offered.
func TestAChangedDocumentIsNoticed(t *testing.T) {
	file := issuesConfig(t, "https://api.example.com", `["*"]`)
	before, read, err := config.NewLoader(file, testEnvironment).Load()
	if err != nil {
		t.Fatal(err)
	}
	watch := config.NewWatch(read)
	document := filepath.Join(filepath.Dir(file), "api.yaml")
	text := strings.Replace(string(before.Servers[1].API.Document), "operationId: list",
		"operationId: search", 1)
	text += "# " + strings.Repeat("x", 1<<20) + "\n" // larger than most configs
	if err := os.WriteFile(document, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if watch.Settled() || !watch.Settled() || !watch.Changed() {
		t.Error("the change was not noticed")
	}
	after, err := config.Load(file, testEnvironment)
	if err != nil {
		t.Fatal(err)
	}
	catalogue := registry.New()
	f := newFleet(catalogue, metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	defer f.close()
	for _, step := range []struct {
		cfg  *config.Config
		want []string
	}{{before, []string{"create", "list"}}, {after, []string{"create", "search"}}} {
		f.apply(t.Context(), step.cfg.Servers[1:])
		var got []string
		for _, tool := range catalogue.Catalogue().View([]string{"api"}).Tools {
			got = append(got, tool.Name)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("tools (-want +got):\n%s", diff)
		}
	}
}
