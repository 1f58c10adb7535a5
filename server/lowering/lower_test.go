package lowering_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/server/lowering"
)

// TestBlocksOfAMessageHaveNoLargeCopies splits messages for clients that know one block
// in each. A server could have any number of gigabytes made of one that has much beside
// its blocks: of that only the role stays.
func TestBlocksOfAMessageHaveNoLargeCopies(t *testing.T) {
	const image, text = `{"type":"image","data":"","mimeType":"image/png"}`, `{"type":"text","text":"x"}`
	much := strings.Repeat("y", 64<<10)
	blocks := `"content":[` + strings.Repeat(text+",", 2000) + text + `]}`
	one := `{"role":"user","content":` + text + `}`
	for messages, want := range map[string]string{
		`[{"role":"user","_meta":{"x":1},"content":[` + text + `,` + image + `]}]`: `[{"role":"user","_meta":{"x":1},"content":` +
			text + `},{"role":"user","_meta":{"x":1},"content":` + image + `}]`,
		`[{"role":"user","_meta":{"x":"` + much + `"},` + blocks + `]`: `[` + strings.Repeat(one+",", 2000) + one + `]`,
		`[{"role":"` + much + `",` + blocks + `]`:                      `[{"role":"` + much + `",` + blocks + `]`,
	} {
		params, err := mcp.ParseObject([]byte(`{"messages":` + messages + `}`))
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := lowering.Question(mcp.Revision2506, mcp.Object{}, mcp.MethodSample, params)
		runtime.ReadMemStats(&after)
		if split := string(got.Value("messages")); split != want {
			t.Errorf("got %.200s, want %.200s", split, want)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 50 {
			t.Errorf("it took %d MiB", took)
		}
	}
}
