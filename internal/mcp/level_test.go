package mcp_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

func TestLevelsAreOrdered(t *testing.T) {
	names := []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
	for i, name := range names {
		level, ok := mcp.LevelOf(name)
		if !ok || level.String() != name || level < 1 {
			t.Fatalf("%s: got %v, %v", name, level, ok)
		}
		for j, other := range names {
			if got, want := level.Wants(other), j >= i; got != want {
				t.Errorf("who asked for %s wants %s: got %v, want %v", name, other, got, want)
			}
		}
		if mcp.Level(0).Wants(name) {
			t.Errorf("who asked for nothing gets %s", name)
		}
		if level.Wants("trace") || level.Wants("") {
			t.Errorf("who asked for %s gets what is no level", name)
		}
	}
}

func TestNoLevel(t *testing.T) {
	for _, name := range []string{"", "trace", "Debug", "warn", " info"} {
		if level, ok := mcp.LevelOf(name); ok || level != 0 {
			t.Errorf("%q: got %v, %v", name, level, ok)
		}
	}
	for _, level := range []mcp.Level{-1, 0, 9} {
		if got := level.String(); got != "" {
			t.Errorf("%d: got %q", int(level), got)
		}
	}
}
