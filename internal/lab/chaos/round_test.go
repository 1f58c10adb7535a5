package main

import (
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// TestAKindThatStaysAwayIsNamed shows that a round does not hold because some kinds of
// clients are back.
func TestAKindThatStaysAwayIsNamed(t *testing.T) {
	t.Parallel()
	before := map[string]int64{"2024": 3, "2025 calls": 0, "2026 calls": 9}
	err := must.Try(func() { back(before, map[string]int64{"2024": 3, "2025 calls": 0, "2026 calls": 12}) })
	if err == nil || !strings.HasSuffix(err.Error(), "2024; 2025 calls") {
		t.Errorf("got %v, want both kinds that stay away", err)
	}
	if err := must.Try(func() { back(before, map[string]int64{"2024": 4, "2025 calls": 1, "2026 calls": 10}) }); err != nil {
		t.Errorf("got %v though each kind is back", err)
	}
}
