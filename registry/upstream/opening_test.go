package upstream

import (
	"testing"
	"time"
)

// TestChildHasAMinuteToStart shows how long a handshake may take. From outside that takes
// as long as it says.
func TestChildHasAMinuteToStart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg  Config
		want time.Duration
	}{
		"a command":              {Config{Command: "npx"}, time.Minute},
		"one with its own limit": {Config{Command: "npx", StartTimeout: 2 * time.Minute}, 2 * time.Minute},
		"an address":             {Config{URL: "https://mcp.example.com"}, 10 * time.Second},
	} {
		if got := test.cfg.openLimit(); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
