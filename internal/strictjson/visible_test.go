package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Characters mean the same in what is appended, and none is hidden.
func TestVisibleJSONMeansTheSame(t *testing.T) {
	const block = 256
	for first := rune(0); first <= unicode.MaxRune; first += block {
		if first >= 0x3000 && first%0x1000 != 0 { // the rest is alike, and long
			continue
		}
		var all strings.Builder
		for r := first; r < first+block; r++ {
			if utf8.ValidRune(r) {
				all.WriteString(string(r) + "b")
			}
		}
		text := all.String()
		plain, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		shown := strictjson.AppendVisible(nil, plain)
		var got map[string]string
		if err := json.Unmarshal(shown, &got); err != nil || got[text] != text {
			t.Errorf("from U+%04X: got %s, %v", first, shown, err)
		}
		if strings.ContainsFunc(string(shown), strictjson.Hidden) {
			t.Errorf("from U+%04X, something is hidden in %+q", first, shown)
		}
	}
	if got := string(strictjson.AppendVisible([]byte("x"),
		[]byte("{\"a\":\"\xff\"}\n"))); got != "x{\"a\":\"\\ufffd\"}\n" {
		t.Errorf("broken UTF-8: got %q", got)
	}
}
