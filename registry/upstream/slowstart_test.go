package upstream_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// firstStart tells whether this is the first child that asks for the file that FIRST
// names.
func firstStart() bool {
	file, err := os.OpenFile(os.Getenv("FIRST"), os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	_ = file.Close()
	return true
}

// slowStart returns the input of a first child that begins to read only when the gateway
// has given up waiting for the answer to its question, and does the legacy handshake.
// Later children are quick.
func slowStart() io.ReadCloser {
	if !firstStart() {
		return os.Stdin
	}
	in := bufio.NewReader(os.Stdin)
	var missed []byte
	for {
		line, err := in.ReadBytes('\n')
		missed = append(missed, line...)
		if err != nil || bytes.Contains(line, []byte(`"initialize"`)) {
			return struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(missed), in), os.Stdin}
		}
	}
}

// serveLate answers as a server of both eras does, but the question what it is only after
// the legacy handshake began: "late" before it answers that, "later" after it, "latest"
// when it is asked for its tools.
func (f *fake) serveLate() {
	var question wire
	answer := func() { newFake("both", os.Stdout).discover(question) }
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var m wire
		if json.Unmarshal(in.Bytes(), &m) != nil {
			continue
		}
		switch m.Method {
		case mcp.MethodDiscover:
			question = m
			continue
		case mcp.MethodInitialize:
			if f.kind == "late" {
				answer()
			}
		case mcp.MethodToolsList:
			if f.kind == "latest" {
				answer()
			}
		}
		f.handle(m, in.Bytes())
		if m.Method == mcp.NotifyInitialized && f.kind == "later" {
			answer()
		}
	}
}

// revisions returns the revisions in which the server was up, in order.
func (r *rig) revisions() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, s := range r.states {
		if s.Up {
			all = append(all, s.Revision)
		}
	}
	return slices.Compact(all)
}

// TestSlowStartMakesNoServerOlder starts servers of both eras whose first child is slow,
// in every order of what it says.
func TestSlowStartMakesNoServerOlder(t *testing.T) {
	t.Parallel()
	modern := []string{mcp.Revision2607}
	for kind, want := range map[string][]string{
		"sdk-slow":   modern,
		"late":       modern,
		"later":      modern,
		"latest":     {mcp.Revision2511, mcp.Revision2607}, // it was in use when it was found out
		"mute-once":  modern,
		"crash-once": modern,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cfg := command(kind)
			cfg.Env["FIRST"] = filepath.Join(t.TempDir(), "first")
			if kind == "mute-once" {
				cfg.StartTimeout = 5 * time.Second
			}
			r := start(t, cfg)
			r.untilTool("echo")
			r.until(
				"it is modern", func() bool { return r.last().Up && r.last().Revision == mcp.Revision2607 })
			if got := r.revisions(); !slices.Equal(got, want) {
				t.Errorf("revisions: got %v, want %v", got, want)
			}
		})
	}
}

// TestSlowStartIsToldAsModernByAProbe has a slow server probed, as validate does.
func TestSlowStartIsToldAsModernByAProbe(t *testing.T) {
	t.Parallel()
	cfg := command("late")
	cfg.Env["FIRST"] = filepath.Join(t.TempDir(), "first")
	r := newRig(t, cfg, nil)
	status, err := r.up.Probe(t.Context())
	if err != nil || status.Revision != mcp.Revision2607 {
		t.Errorf("Probe: got revision %q, %v, want %s", status.Revision, err, mcp.Revision2607)
	}
}
