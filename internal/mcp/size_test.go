package mcp_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

func TestInBytes(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0 bytes", 300: "300 bytes", 1 << 10: "1 KiB", 1500: "1500 bytes", 1 << 20: "1 MiB",
		5 << 19: "2560 KiB", 2 << 30: "2048 MiB",
	} {
		if got := mcp.InBytes(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
