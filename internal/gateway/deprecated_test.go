package gateway

import (
	"context"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/metrics/metricstest"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

func TestDeprecatedPartsAreCountedByTenant(t *testing.T) {
	b, l := newLibrary(t)
	l.reply = func(context.Context, *registry.Call) (mcp.Object, error) {
		return object(
			`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"roots/list"},` +
				`"c":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}}}`), nil
	}
	r := ask(mcp.MethodToolsCall, `{"name":"lib__ask"}`)
	r.LogLevel, _ = mcp.LevelOf("info")
	if _, failure := b.handle(t, r); failure != nil {
		t.Fatal(failure)
	}
	for part, want := range map[string]float64{"roots": 1, "logging": 1, "sampling": 0, "sse": 0} {
		if got := metricstest.Sum(t, b.metrics, "drawbridge_deprecated_uses_total", "tenant", "acme", "part",
			part); got != want {
			t.Errorf("%s: got %v, want %v", part, got, want)
		}
	}
}
