package server_test

import (
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry"
)

// TestListHasTheFormOfItsRevision lists the same tool in all revisions, again and again:
// each gets its own form.
func TestListHasTheFormOfItsRevision(t *testing.T) {
	w := newWorld(t)
	w.registry.Replace(registry.Source{Name: "box", Tools: []registry.Offer{{Definition: object(
		`{"name":"t","title":"T","inputSchema":{"type":"object"},"outputSchema":{"type":"array"},"annotations":{"readOnlyHint":true},"execution":{"taskSupport":"forbidden"}}`)}}})
	const all = "title outputSchema annotations execution"
	has := map[string]string{
		mcp.Revision2607: "title outputSchema annotations",
		mcp.Revision2511: "title annotations execution",
		mcp.Revision2506: "title annotations",
		mcp.Revision2503: "annotations",
		mcp.Revision2024: "",
	}
	for range 3 {
		for _, revision := range mcp.Revisions() {
			ask := modernList("")
			if revision != mcp.Revision2607 {
				ask = legacyList(w.open(t, "alice", revision), "")
			}
			got := w.do(t, ask).Body.String()
			for member := range strings.FieldsSeq(all) {
				if want := strings.Contains(has[revision], member); strings.Contains(got,
					`"`+member+`"`) != want || !strings.Contains(got, `"name":"t"`) {
					t.Errorf("%s: got %s, want %s in it: %v", revision, got, member, want)
				}
			}
		}
	}
}
