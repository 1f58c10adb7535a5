package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
)

// TestRepeatsAreJudgedAndRecorded asks for answers of calls that were made before: by who
// may use the tool, of a tool that is not there, and where nothing can be recorded.
func TestRepeatsAreJudgedAndRecorded(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	b.config.Audit = logAt(t, audit.Config{File: file})
	b.config.Recorded = []Recorded{{Pattern: "box__*", Names: []string{"n"}}}
	if err := b.Repeat(t.Context(), b.caller(t, alice), request("box__plain", `{"n":7}`)); err != nil {
		t.Errorf("of a tool that she may use: got %v", err)
	}
	if got := asError(t, b.Repeat(t.Context(), b.caller(t, alice), request("box__none", `{}`))).StableCode(); got != "DB-TOOL" {
		t.Errorf("of another: got %s, want DB-TOOL", got)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"outcome":"repeated"`) ||
		!strings.Contains(lines[0], "sha256:") ||
		!strings.Contains(lines[0], `"named_arguments":{"n":"7"}`) || !strings.Contains(lines[1], `"outcome":"unknown"`) {
		t.Errorf("got the record\n%s\nwant repeated with a digest and an argument, and unknown", text)
	}
	b.config.Audit = closedLog(t, nil)
	if got := asError(t, b.Repeat(t.Context(), b.caller(t, alice), request("box__plain", `{}`))).StableCode(); got != "DB-AUDIT-FULL" {
		t.Errorf("without room for the record: got %s, want DB-AUDIT-FULL", got)
	}
	if b.calls != 0 {
		t.Errorf("the tool ran %d times, want never", b.calls)
	}
}

// TestRepeatWhileTheServerIsDown: the answer is there already, and the right to it does
// not end with the server.
func TestRepeatWhileTheServerIsDown(t *testing.T) {
	b := newBench(t)
	b.registry.Remove("box")
	b.registry.Lose("box", "box") // this replica has begun meanwhile, and never reached it
	if err := b.Repeat(t.Context(), b.caller(t, alice), request("box__plain", `{}`)); err != nil {
		t.Errorf("got %v, want no error", err)
	}
}
