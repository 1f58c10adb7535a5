package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// exampleOfReadme returns the config of the README that shows what a real one looks like,
// as a file beside a program npx that can be found.
func exampleOfReadme(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "What a real config looks like")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the README has no such config")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "drawbridge.yaml")
	for name, content := range map[string]string{file: text, filepath.Join(dir, "npx"): "#!/bin/sh\n"} {
		if err := os.WriteFile(name, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	return file
}

// TestTheConfigOfTheReadmeWarnsOfNothing runs it through what validate -strict does, with
// servers that offer what such servers do: the one for files has tools alone.
func TestTheConfigOfTheReadmeWarnsOfNothing(t *testing.T) {
	file := exampleOfReadme(t)
	cfg, err := config.Load(file, func(string) (string, bool) { return "secret", true })
	if err != nil {
		t.Fatal(err)
	}
	warnOfMemory(cfg, memoryPlan{budget: 512 << 20})
	offline := findings{strict: true}
	if offline.judge(t.Context(), cfg, false); !offline.OK {
		t.Errorf("without -online: got %v", offline.Warnings)
	}

	catalogue := registry.New()
	fleet := newFleet(catalogue, metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	defer fleet.close()
	fleet.apply(t.Context(), slices.DeleteFunc(slices.Clone(cfg.Servers), config.Server.IsElsewhere))
	unused := func(context.Context, *registry.Call) (mcp.Object, error) { return mcp.Object{}, nil }
	offers := func(names ...string) (out []registry.Offer) {
		for _, name := range names {
			out = append(out, registry.Offer{Definition: object(t,
				`{"name":"`+name+`","inputSchema":{"type":"object"}}`), Timeout: time.Second, Call: unused})
		}
		return out
	}
	for _, s := range []registry.Source{
		{Name: "files", Prefix: "files", Tools: offers("read_file", "read_text_file", "write_file",
			"list_directory")},
		{
			Name: "github", Prefix: "github", Tools: offers("delete_file", "get_issue"),
			Prompts: []mcp.Object{object(t, `{"name":"admin_report"}`)}, Use: unused, Reads: true,
		},
	} {
		if refused := catalogue.Replace(s); len(refused) > 0 {
			t.Fatalf("%s: %v", s.Name, refused)
		}
	}
	if got, _ := cfg.Judge(catalogue, true, nil); len(got) > 0 {
		t.Errorf("with -online: got %v", got)
	}
}

func object(t *testing.T, text string) mcp.Object {
	t.Helper()
	o, err := mcp.ParseObject([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}
