package interop_test

import (
	"fmt"
	"slices"
	"testing"
)

const legacyRevision = "2025-11-25"

// TestMCPGoGoesThroughItsStory lets clients of mcp-go of both eras list, call, hear progress and learn of a changed list, of a
// server of mcp-go.
func TestMCPGoGoesThroughItsStory(t *testing.T) {
	t.Parallel()
	g := serve(t, tenant(fmt.Sprintf("  go: {url: %q, private_addresses: true}\n", mcpGoOverHTTP(t))))
	token := g.token(t)
	for _, revision := range []string{legacyRevision, modernRevision} {
		t.Run(revision, func(t *testing.T) {
			c := mcpGo(t, g.url, token, revision)
			if names := c.names(t); !slices.Contains(names, "go__greet") {
				t.Errorf("tools: got %v, want go__greet among them", names)
			}
			if text, failed := c.use(t, "go__greet", map[string]any{"a": 1}); failed || text != "hello with 1 arguments" {
				t.Errorf("greet: got %q, failed %v", text, failed)
			}
			if text, failed := c.use(t, "go__greet", map[string]any(nil)); failed || text != "hello with 0 arguments" { // sent as null
				t.Errorf("greet without arguments: got %q, failed %v", text, failed)
			}
			// What the server tells together with the answer, on another stream than it, may come too late, also to a direct client.
			eventually(t, "progress of all steps is heard", func() bool {
				if text, failed := c.use(t, "go__steps", map[string]any{}); failed || text != "stepped" {
					t.Errorf("steps: got %q, failed %v", text, failed)
				}
				progress, _ := c.heard()
				return slices.Contains(progress, 1) && slices.Contains(progress, 2) && slices.Contains(progress, 3)
			})
			more := "more-" + revision
			if text, failed := c.use(t, "go__grow", map[string]any{"name": more}); failed {
				t.Fatalf("grow: got %q", text)
			}
			eventually(t, "the changed list is announced", func() bool {
				_, changes := c.heard()
				return changes > 0
			})
			eventually(t, "the new tool is listed", func() bool { return slices.Contains(c.names(t), "go__"+more) })
		})
	}
}
