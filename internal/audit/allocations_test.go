//go:build !race

package audit_test

import (
	"bytes"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
)

// TestAllocationsOfADigest bounds what a digest costs: one allocation, of its text. The
// race detector allocates too, so the test runs without.
func TestAllocationsOfADigest(t *testing.T) {
	keys := audit.NewKeys([][]byte{bytes.Repeat([]byte{1}, 32)})
	arguments := []byte(`{"n":1}`)
	if got := testing.AllocsPerRun(100, func() { keys.Digest("acme", arguments) }); got > 1 {
		t.Errorf("got %v allocations, want at most 1", got)
	}
}
