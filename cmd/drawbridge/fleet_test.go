package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

func TestToolTimeoutsGoForBuiltInToolsToo(t *testing.T) {
	catalogue := registry.New()
	f := newFleet(catalogue, metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	defer f.close()
	f.apply(t.Context(), []serverConfig{{
		name: "box", prefix: "box", builtin: []string{"calculate", "current_time"},
		timeout: 5 * time.Second, toolTimeouts: map[string]time.Duration{"calculate": time.Second},
	}})
	view := catalogue.Catalogue().View([]string{"box"})
	for name, want := range map[string]time.Duration{"box__calculate": time.Second, "box__current_time": 5 * time.Second} {
		tool, err := view.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if tool.Timeout != want {
			t.Errorf("%s: got %s, want %s", name, tool.Timeout, want)
		}
	}
}

func TestRefusalsOfAServerThatComesBackAreForgotten(t *testing.T) {
	registerer := prometheus.NewRegistry()
	f := newFleet(registry.New(), metrics.New(registerer), slog.New(slog.DiscardHandler))
	defer f.close()
	box := serverConfig{name: "box", prefix: "box", builtin: []string{"calculate"}}
	f.apply(t.Context(), []serverConfig{box})
	f.note(t.Context(), upstream.Status{Server: "box", Up: true, Refused: []registry.Refusal{{Server: "box", Item: "a", Reason: "schema"}}})
	if got := toolsRefused(t, registerer); got != 1 {
		t.Fatalf("%v tools refused before, want 1", got)
	}
	box.timeout = time.Second
	f.apply(t.Context(), []serverConfig{box})
	if got := toolsRefused(t, registerer); got != 0 {
		t.Errorf("%v tools refused after the server came back whole, want 0", got)
	}
}

// TestLeftOutToolsAreLoggedOnce changes a server's list again and again.
func TestLeftOutToolsAreLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	f := newFleet(registry.New(), metrics.New(prometheus.NewRegistry()), slog.New(slog.NewTextHandler(&log, nil)))
	defer f.close()
	refusal := func(tool, reason string) registry.Refusal {
		return registry.Refusal{Server: "box", Item: tool, Reason: reason}
	}
	var many []registry.Refusal
	for i := range 3 * maxRefusalsShown {
		many = append(many, refusal(fmt.Sprint("m", i), "schema"))
	}
	for _, test := range []struct {
		name    string
		refused []registry.Refusal
		want    int
	}{
		{"the first", []registry.Refusal{refusal("a", "schema")}, 1},
		{"the same", []registry.Refusal{refusal("a", "schema")}, 0},
		{"one more", []registry.Refusal{refusal("b", "name"), refusal("a", "schema")}, 1},
		{"one less", []registry.Refusal{refusal("b", "name")}, 0},
		{"another reason", []registry.Refusal{refusal("b", "schema")}, 1},
		{"twice the same", []registry.Refusal{refusal("c", "name"), refusal("c", "name")}, 1},
		{"many", many, maxRefusalsShown},
	} {
		log.Reset()
		f.note(t.Context(), upstream.Status{Server: "box", Up: true, Tried: true, Refused: test.refused})
		if got := strings.Count(log.String(), "tool left out"); got != test.want {
			t.Errorf("%s: %d tools were logged, want %d", test.name, got, test.want)
		}
	}
}

func toolsRefused(t *testing.T, gatherer prometheus.Gatherer) (sum float64) {
	t.Helper()
	families, err := gatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "drawbridge_upstream_tools_refused" {
			continue
		}
		for _, series := range family.GetMetric() {
			sum += series.GetGauge().GetValue()
		}
	}
	return sum
}
