package upstream_test

import (
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
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

// TestAProgramThatSpeaksNoMCPIsToldToBeNone where it prints lines and never answers, as
// one does that was meant to be reached over HTTP. What it prints may be a secret, so
// none of it is told.
func TestAProgramThatSpeaksNoMCPIsToldToBeNone(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"", mcp.Revision2607, mcp.Revision2511} {
		r := start(t, upstream.Config{
			Command: "sh", Args: []string{"-c", "echo INFO: listening on port 8000; exec sleep 1000"},
			StartTimeout: 500 * time.Millisecond, Revision: revision,
		})
		const want = "no answer to the handshake in time, and on its standard output are lines that are no " +
			"messages: it may speak over HTTP, or print its log there"
		// which a busy machine may not have started in time for the first attempts
		r.until("revision "+revision+": "+want, func() bool { return !r.last().Up && r.last().Problem == want })
		r.stop()
	}
}
