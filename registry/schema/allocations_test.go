//go:build !race

package schema_test

import (
	"fmt"
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

// TestWeakeningAllocatesNothingForAnEdge compiles a short chain of references to what
// cannot be enforced, and a long one. Each definition refers to the one before it, so
// that all are gone through as often as there are definitions.
func TestWeakeningAllocatesNothingForAnEdge(t *testing.T) {
	allocated := func(length int) float64 {
		var chain strings.Builder
		for i := range length {
			fmt.Fprintf(&chain, `,"%d":{"not":{"$ref":"#/$defs/%d"}}`, i+1, i)
		}
		text := `{"$defs":{"0":{"pattern":"(?=x)"}` + chain.String() + `},"$ref":"#/$defs/1"}`
		return testing.AllocsPerRun(1, func() { compile(t, text) })
	}
	if short, long := allocated(50), allocated(500); long > 20*short {
		t.Errorf("%v allocations for 50 references, %v for 500", short, long)
	}
}

// TestLongPatternsAreRefusedBeforeTheyAreCompiled holds for one whose program would take
// 36 MiB.
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
