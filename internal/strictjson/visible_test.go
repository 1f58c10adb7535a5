package strictjson_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Every character means the same in what is appended, and none is hidden.
func TestVisibleJSONMeansTheSame(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xD800 && r <= 0xDFFF {
			continue
		}
		text := "a" + string(r) + "b"
		plain, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		shown := strictjson.AppendVisible(nil, plain)
		var got map[string]string
		if err := json.Unmarshal(shown, &got); err != nil || got[text] != text {
			t.Errorf("U+%04X: got %s, %v", r, shown, err)
		}
		if strings.ContainsFunc(string(shown), strictjson.Hidden) {
			t.Errorf("U+%04X is hidden in %+q", r, shown)
		}
	}
	if got := string(strictjson.AppendVisible([]byte("x"), []byte("{\"a\":\"\xff\"}\n"))); got != "x{\"a\":\"\\ufffd\"}\n" {
		t.Errorf("broken UTF-8: got %q", got)
	}
}
