//go:build !race

package schema_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/schema"
)

// TestCountingStepsAllocatesNothingForAnItem counts the steps of patterns in a short list
// and in one of ten times as many items.
func TestCountingStepsAllocatesNothingForAnItem(t *testing.T) {
	s := compile(t, `{"items":{"allOf":[{"properties":{"a":{"pattern":"^a+$"}},`+
		`"additionalProperties":{"pattern":"^b+$"}}]}}`)
	allocated := func(items int) float64 {
		item := `{"a":"` + strings.Repeat("a", 2000) + `","b":"bb"}`
		value := mcp.RawJSON("[" + repeated(item, items) + "]")
		return testing.AllocsPerRun(20, func() {
			if err := s.CheckWithin(value, "value", nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	if few, many := allocated(9), allocated(90); many > few+20 {
		t.Errorf("%v allocations for 9 items, %v for 90", few, many)
	}
}

// TestLongPatternsAreRefusedBeforeTheyAreCompiled holds for one whose program would take 36
// MiB.
func TestLongPatternsAreRefusedBeforeTheyAreCompiled(t *testing.T) {
	pattern := "(?:" + strings.Repeat("a", 900) + "){1000}"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := schema.CompilePattern(pattern)
	runtime.ReadMemStats(&after)
	if spent := after.TotalAlloc - before.TotalAlloc; err == nil || spent > 5<<20 {
		t.Errorf("got %v after %d bytes, want an error after few", err, spent)
	}
}
