package main

import (
	"path/filepath"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// TestTheGatewayIsBuiltWithoutTheFields fails when the code has changed so much that the
// command record has to learn it anew.
func TestTheGatewayIsBuiltWithoutTheFields(t *testing.T) {
	l := &lab{Lab: &world.Lab{Dir: t.TempDir()}}
	l.buildWithoutFields(t.Context(), filepath.Join(l.Dir, "without"))
}

func TestMiddleOfValues(t *testing.T) {
	var values []float64
	for i := range 100 {
		values = append(values, float64((i*37)%100))
	}
	if got, want := middle(values), (spread{49.5, 40, 59}); got != want {
		t.Errorf("got %v of 0 to 99, want %v", got, want)
	}
}
