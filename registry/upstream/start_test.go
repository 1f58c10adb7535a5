package upstream_test

import (
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestStartTimeoutIsHonoured starts a child that never answers, and has it given up after
// its own time and not after the default, a minute.
func TestStartTimeoutIsHonoured(t *testing.T) {
	t.Parallel()
	const own = 500 * time.Millisecond
	for _, revision := range []string{"", mcp.Revision2607, mcp.Revision2511} {
		cfg := command("mute")
		cfg.StartTimeout, cfg.Revision = own, revision
		began := time.Now()
		r := start(t, cfg)
		r.until("an attempt ended", func() bool { return r.last().Tried })
		if took := time.Since(began); took < own || took >= time.Minute {
			t.Errorf("revision %q: tried after %v, want %v", revision, took, own)
		}
		if got := r.last(); got.Up || got.Problem != "no answer to the handshake in time" {
			t.Errorf("revision %q: got %+v, want down for lack of time", revision, got)
		}
		r.stop()
	}
}
