package strictjson_test

import (
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

func TestCanonicalSpellsEqualValuesAlike(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{` { "b" : [ 1 , {"z":1,"y":2} ] , "a" : "x" } `, `{"a":"x","b":[1,{"y":2,"z":1}]}`},
		{`{"a":"\u0041\/\u200b\u000a","":null}`, "{\"\":null,\"a\":\"A/\u200b\\n\"}"},
		// in order of UTF-16, as in the RFC
		{"{\"\\ud83d\\ude00\":1,\"\ufb33\":2}", "{\"😀\":1,\"\ufb33\":2}"},
		{`[1.0,1e2,-0,12345678901234567890,0.1]`, `[1.0,1e2,-0,12345678901234567890,0.1]`},
	} {
		got, err := strictjson.Canonical([]byte(c.data))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.data, got, err, c.want)
		}
		if again, err := strictjson.Canonical(got); err != nil || string(again) != string(got) {
			t.Errorf("%s: a second time %s, %v", c.data, again, err)
		}
	}
	if got, err := strictjson.Canonical([]byte(`{"a":1`)); err == nil {
		t.Errorf("got %s for what is not JSON", got)
	}
}
