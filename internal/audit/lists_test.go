package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/audit"
)

// TestListsAreBoundedAndClean writes lists of hostile texts: one line a record, and of
// each list the first eight texts, each cut and escaped as every text is.
func TestListsAreBoundedAndClean(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, audit.Config{File: file})
	hostile := []string{
		"a\",\"outcome\":\"ok", "a\r\n{}", "\x1b[2J", "", "]", strings.Repeat("x", 10_000),
		`\`, "\u202e", "beyond",
	}
	write(t, l, &audit.Record{
		Time: noon, Outcome: "unauthenticated", Audience: hostile,
		Expected: hostile[:1],
	})
	write(t, l, &audit.Record{Time: noon, Outcome: "ok", Audience: []string{}})
	lines := linesOf(t, file)
	if len(lines) != 2 {
		t.Fatalf("got %d lines, want 2", len(lines))
	}
	want := []any{hostile[0], hostile[1], hostile[2], "", "]", strings.Repeat("x", 256), `\`, "\u202e"}
	if diff := cmp.Diff(want, lines[0]["audience"]); diff != "" {
		t.Errorf("audience (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{hostile[0]}, lines[0]["expected"]); diff != "" {
		t.Errorf("expected (-want +got):\n%s", diff)
	}
	if _, there := lines[1]["audience"]; there {
		t.Errorf("got %v, want no member for an empty list", lines[1])
	}
	for _, line := range rawLines(t, file) {
		if strings.ContainsFunc(line,
			func(r rune) bool { return r < ' ' || r == '\u202e' || r == utf8.RuneError }) {
			t.Errorf("%q shows what a terminal takes for something else", line)
		}
	}
}

func rawLines(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}
