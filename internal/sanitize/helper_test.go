package sanitize_test

import (
	"bytes"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/sanitize"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// object parses text, which must be a JSON object.
func object(t testing.TB, text string) mcp.Object {
	t.Helper()
	o, err := mcp.ParseObject([]byte(text))
	if err != nil {
		t.Fatalf("parse %q: %v", text, err)
	}
	return o
}

// cleanDefinition returns what becomes of a definition.
func cleanDefinition(definition mcp.Object) (mcp.Object, sanitize.Report) {
	judged := sanitize.Definition(definition, 0)
	return judged.Definition, judged.Report
}

// concealed returns the first strings of a definition that hide text and are not edited,
// and how many there are.
func concealed(definition mcp.Object, limit int) (first []sanitize.Finding, all int) {
	judged := sanitize.Definition(definition, limit)
	return judged.Concealed, judged.Total
}

// textOf returns the text of the first content block.
func textOf(t testing.TB, result mcp.Object) string {
	t.Helper()
	blocks, ok := result.Value("content").Elements()
	if !ok || len(blocks) == 0 {
		t.Fatalf("no content in %s", result.JSON())
	}
	block, _ := mcp.ObjectOf(blocks[0])
	return block.Text("text")
}

// cleanText returns what becomes of text in a result, after checking what holds for any
// result.
func cleanText(t testing.TB, p sanitize.Policy, text string) (string, sanitize.Report) {
	t.Helper()
	cleaned, report, err := p.Result(textResult(text))
	if err != nil {
		t.Fatalf("Result(%+q): %v", text, err)
	}
	checkValid(t, cleaned.JSON())
	return textOf(t, cleaned), report
}

func checkValid(t testing.TB, data []byte) {
	t.Helper()
	if err := strictjson.Check(data); err != nil {
		t.Fatalf("result is no JSON: %v in %+q", err, data)
	}
}

// sameBytes tells whether b is a itself: not equal only, but the same values in memory.
func sameBytes(a, b mcp.Object) bool {
	if !bytes.Equal(a.JSON(), b.JSON()) {
		return false
	}
	for name, value := range a.Members {
		if other := b.Value(name); len(value) > 0 && &other[0] != &value[0] {
			return false
		}
	}
	return true
}
