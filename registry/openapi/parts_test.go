package openapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
)

// TestPartsOfPartsAreSearchedOnce has a schema of parts within parts, in which nothing is
// absent. To look through all of them again for each would take the square of the time.
func TestPartsOfPartsAreSearchedOnce(t *testing.T) {
	const properties = 1000
	var held []string
	for i := range properties {
		held = append(held, fmt.Sprintf(`"p%d":{"type":"string"}`, i))
	}
	allocations := func(depth int) float64 {
		text := `{"properties":{` + strings.Join(held, ",") + `}}`
		for range depth {
			text = `{"allOf":[` + text + `]}`
		}
		return testing.AllocsPerRun(1, func() {
			s := (&maker{doc: &document{}}).schemas(request)
			if _, err := s.convert(mcp.RawJSON(text)); err != nil {
				t.Error(err)
			}
		})
	}
	flat, nested := allocations(1), allocations(24)
	if nested-flat > 3*properties { // for each property in each of the parts it is 24 times as many
		t.Errorf("parts within parts took memory %.0f times, a single one %.0f times", nested, flat)
	}
}
