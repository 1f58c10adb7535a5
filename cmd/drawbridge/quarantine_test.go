package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/drawbridge-mcp/drawbridge/cmd/drawbridge/internal/config"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/metrics"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/registry"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// heldTool returns the refusal of a tool that is quarantined.
func heldTool(name, digest string) registry.Refusal {
	return registry.Quarantined("art", registry.KindTool, name, &registry.QuarantineError{
		Digest: digest, Found: []sanitize.Finding{{Path: "name", Kind: sanitize.Hidden}}, Total: 1,
	})
}

// gauge returns the value of a metric's only series with that label value, -1 when there
// is none.
func gauge(t *testing.T, from prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetGauge().GetValue()
			}
		}
	}
	return -1
}

// TestQuarantineIsLoggedOnceForADefinition lists the same again, loses the server and
// changes what it hides.
func TestQuarantineIsLoggedOnceForADefinition(t *testing.T) {
	var log bytes.Buffer
	registerer := prometheus.NewRegistry()
	f := newFleet(registry.New(), metrics.New(registerer), slog.New(slog.NewTextHandler(&log, nil)))
	defer f.close()
	up := func(refused ...registry.Refusal) upstream.Status {
		return upstream.Status{Server: "art", Up: true, Tried: true, Refused: refused}
	}
	for _, step := range []struct {
		name        string
		status      upstream.Status
		logs, gauge int
	}{
		{"the first", up(heldTool("a", "sha256:1")), 1, 1},
		{"the same", up(heldTool("a", "sha256:1")), 0, 1},
		{"lost", upstream.Status{Server: "art", Tried: true, Problem: "gone"}, 0, 0},
		{"back", up(heldTool("a", "sha256:1")), 0, 1},
		{"changed, and one more", up(heldTool("a", "sha256:2"), heldTool("b", "sha256:3")), 2, 2},
		{"changed back", up(heldTool("a", "sha256:1")), 0, 1},
		{"released", up(), 0, 0},
	} {
		log.Reset()
		f.note(t.Context(), step.status)
		if got := strings.Count(log.String(), `msg="definition quarantined"`); got != step.logs {
			t.Errorf("%s: %d lines were logged, want %d:\n%s", step.name, got, step.logs, log.String())
		}
		if got := gauge(t, registerer, "drawbridge_upstream_items_quarantined",
			"art"); got != float64(step.gauge) {
			t.Errorf("%s: the gauge is %v, want %d", step.name, got, step.gauge)
		}
		if got := metricstest.Sum(t, registerer, "drawbridge_upstream_items_refused"); got != 0 {
			t.Errorf("%s: %v items count as refused as well", step.name, got)
		}
	}
	log.Reset()
	for i := range 3 * maxLogged {
		f.note(t.Context(), up(heldTool("a", fmt.Sprint("sha256:new", i))))
	}
	if got := strings.Count(log.String(), "\n"); got > maxLogged {
		t.Errorf("%d lines were logged for a server that always hides something else", got)
	}
}

func TestQuarantineIsSpeltHarmlessly(t *testing.T) {
	f := newFleet(registry.New(), metrics.New(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	defer f.close()
	f.note(t.Context(), upstream.Status{
		Server: "art", Up: true,
		Refused: []registry.Refusal{heldTool("a\u200b\x1b[2J", "sha256:1")}, Idle: []string{"sha256:2"},
	})
	want := []string{
		"server art: released sha256:2 lets nothing in; it may go or, if it is meant, acknowledge unused-release there",
		`server art: tool 'a\u200b\x1b[2J' is quarantined: hidden text in name (an invisible character); if it is meant, released: ["sha256:1"] at the server lets it in`,
	}
	if got := f.warnings(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestUnusedReleasesOfAServerThatIsGoneAreForgotten takes the server out of the config.
func TestUnusedReleasesOfAServerThatIsGoneAreForgotten(t *testing.T) {
	registerer := prometheus.NewRegistry()
	f := newFleet(registry.New(), metrics.New(registerer), slog.New(slog.DiscardHandler))
	defer f.close()
	f.apply(t.Context(), []config.Server{{Name: "art", Prefix: "art", Builtin: []string{"calculate"}}})
	f.note(t.Context(), upstream.Status{Server: "art", Up: true, Idle: []string{"sha256:1", "sha256:2"}})
	if got := gauge(t, registerer, "drawbridge_config_warnings", config.CodeUnusedRelease); got != 2 {
		t.Errorf("the gauge is %v, want 2", got)
	}
	f.apply(t.Context(), nil)
	for _, name := range []string{"drawbridge_config_warnings", "drawbridge_upstream_items_quarantined"} {
		if got := gauge(t, registerer, name, config.CodeUnusedRelease); got > 0 {
			t.Errorf("%s: the gauge is %v after the server is gone", name, got)
		}
	}
}
