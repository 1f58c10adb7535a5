package strictjson_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/corpus"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// TestT1Differentials holds the texts that parsers disagree on to be refused.
func TestT1Differentials(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, reason string }{
		{"the same name twice", `{"name":"ok","name":"evil"}`, "same name twice"},
		{"escaped", `{"name":"ok","n\u0061me":"evil"}`, "same name twice"},
		{"both escaped", `{"\u006eame":"ok","n\u0061me":"evil"}`, "same name twice"},
		{"deep inside", `{"a":[{"b":{"path":1,"x":2,"path":3}}]}`, "same name twice"},
		{"among many", `{` + manyNames(100) + `"n7":0}`, "same name twice"},
		{"trailing object", `{"a":1}{"b":2}`, "more text"},
		{"trailing comma", `{"a":1},`, "more text"},
		{"trailing NUL", "{\"a\":1}\x00", "more text"},
		{"lone surrogate", `{"a":"\ud800"}`, "not JSON"},
		{"lone low surrogate", `{"a":"\udc00\ud800"}`, "not JSON"},
		{"lone surrogate in a name", `{"\ud800":1}`, "not JSON"},
		{"bad UTF-8", "{\"a\":\"\xff\"}", "not JSON"},
		{"encoded surrogate", "{\"a\":\"\xed\xa0\x80\"}", "not JSON"},
		{"overlong", "{\"a\":\"\xc0\xaf\"}", "not JSON"},
		{"BOM", "\uFEFF{}", "not JSON"},
		{"single quotes", `{'a':1}`, "not JSON"},
		{"comment", `{"a":1/**/}`, "not JSON"},
		{"raw line break in a string", "\"a\nb\"", "not JSON"},
		{"NaN", `NaN`, "not JSON"},
		{"hexadecimal", `0x10`, "more text"},
		{"leading zero", `01`, "more text"},
		{"plus", `+1`, "not JSON"},
		{"nothing", ``, "unexpected end"},
		{"cut short", `{"a":`, "unexpected end"},
	}
	for _, test := range tests {
		err := strictjson.Check([]byte(test.text))
		var syntax *strictjson.SyntaxError
		if !errors.As(err, &syntax) || !strings.Contains(syntax.Reason, test.reason) {
			t.Errorf("%s: Check(%.60q): got error %v, want one with %q", test.name, test.text, err,
				test.reason)
		}
	}
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`"n` + strconv.Itoa(i) + `":0,`)
	}
	return b.String()
}

// TestT37Bounds shows each bound from both sides.
func TestT37Bounds(t *testing.T) {
	t.Parallel()
	nested := func(open, value, shut string, n int) string {
		return strings.Repeat(open, n) + value + strings.Repeat(shut, n)
	}
	tests := []struct {
		name, text string
		ok         bool
	}{
		{"arrays as deep as may be", nested("[", "0", "]", strictjson.MaxDepth), true},
		{"arrays too deep", nested("[", "0", "]", strictjson.MaxDepth+1), false},
		{"empty arrays too deep", nested("[", "", "]", strictjson.MaxDepth+1), false},
		{"objects as deep as may be", nested(`{"a":`, "0", "}", strictjson.MaxDepth), true},
		{"objects too deep", nested(`{"a":`, "0", "}", strictjson.MaxDepth+1), false},
		{"five million brackets", strings.Repeat("[", 5_000_000), false},
		{"as many values as may be", "[" + strings.Repeat("0,", strictjson.MaxValues-2) + "0]", true},
		{"too many values", "[" + strings.Repeat("0,", strictjson.MaxValues-1) + "0]", false},
		{"too many empty objects", "[" + strings.Repeat("{},", strictjson.MaxValues-1) + "{}]", false},
		{
			"names are no values", "[" + strings.Repeat(`{"a":0,"b":0},`, strictjson.MaxValues/3-2) + "0]",
			true,
		},
		{"as many members as may be", "{" + manyNames(strictjson.MaxMembers-1) + `"last":0}`, true},
		{"too many members", "{" + manyNames(strictjson.MaxMembers) + `"last":0}`, false},
		{"as many members as may be, twice", "[{" + manyNames(strictjson.MaxMembers-1) + `"last":0},{` +
			manyNames(strictjson.MaxMembers-1) + `"last":0}]`, true},
		{"too many members in and around an object", "{" + manyNames(strictjson.MaxMembers/2) + `"in":[{` +
			manyNames(strictjson.MaxMembers/2-1) + `"last":0}]}`, false},
		{"members after an object that is closed", "{" + `"in":[{` + manyNames(strictjson.MaxMembers-2) +
			`"last":0}],` + manyNames(strictjson.MaxMembers-2) + `"last":0}`, true},
		{"too many members after objects that are closed", `[{"a":0},{"a":0},{"a":0},{` +
			manyNames(strictjson.MaxMembers) + `"last":0}]`, false},
		{"a long number", strings.Repeat("1", strictjson.MaxNumber), true},
		{"too long a number", strings.Repeat("1", strictjson.MaxNumber+1), false},
		{"too long a fraction", "0." + strings.Repeat("1", strictjson.MaxNumber), false},
		{"a million digits", strings.Repeat("1", 1_000_000), false},
		{"a large exponent", "1e400", true},
		{"a small exponent", "-1.5E-400", true},
		{"too large an exponent", "1e401", false},
		{"too small an exponent", "1e-401", false},
		{"an exponent that is no int", "1e99999999999999999999", false},
		{"zeros before the exponent", "1e+000000001", true},
	}
	for _, test := range tests {
		if err := strictjson.Check([]byte(test.text)); (err == nil) != test.ok {
			t.Errorf("%s: Check(%.40q): got error %v, want it accepted: %v", test.name, test.text, err,
				test.ok)
		}
	}
}

// TestErrorsShowNoValues shows that an error tells a place and nothing of what is there,
// and stays short.
func TestErrorsShowNoValues(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("€", 1_000_000)
	for text, place := range map[string]string{
		`{"params":{"token":"hunter2" x}}`:         `"/params"`,
		`{"params":{"token":hunter2}}`:             "byte 19",
		`{"a":["hunter2","hunter2",01e]}`:          `"/a"`,
		`{"a":{"b":1,"b":"hunter2"}}`:              `"/a/b"`,
		`[` + strings.Repeat("1", 65) + `]`:        "more than 64 characters",
		`{"` + long + `":{"x":hunter2}}`:           "€",
		`{"a":"hunter2","` + long + `":1` + "\x00": "byte",
	} {
		err := strictjson.Check([]byte(text))
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), place) ||
			len(err.Error()) > 300 {
			t.Errorf("Check(%.40q): got error %.300q, want a short one with %q and without the value", text,
				err, place)
		}
	}
}

func TestCheckLeavesDataAlone(t *testing.T) {
	t.Parallel()
	data := []byte(`{"a":[1,2,{"b":"c\u0041"}]}`)
	before := string(data)
	if err := strictjson.Check(data); err != nil || string(data) != before {
		t.Errorf("got error %v and data %q, want none and %q", err, data, before)
	}
}

// stricter tells whether we refuse a case that JSONTestSuite wants accepted: a name twice
// in one object, and a number that is too long.
func stricter(name string) bool {
	switch name {
	case "y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json",
		"y_number_double_close_to_zero.json":
		return true
	}
	return false
}

// TestVectors runs our own texts, of every class that JSONTestSuite has.
func TestVectors(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/vectors.txt")
	if err != nil {
		t.Fatal(err)
	}
	classes, vectors := make(map[string]bool), corpus.Vectors(t, data)
	t.Attr("texts", fmt.Sprint(len(vectors)))
	for _, vector := range vectors {
		classes[vector.Class] = true
		if wrong := judge(vector.Class, []byte(vector.Text)); wrong != "" {
			t.Errorf("%s: %s: %s", vector.Class, vector.Name, wrong)
		}
	}
	for class := range strings.FieldsSeq(
		"y_array y_number y_object y_string y_structure n_array n_incomplete n_multidigit n_number n_object n_single n_string n_structure i_number i_object i_string i_structure") {
		if !classes[class] {
			t.Errorf("no vector of the class %s", class)
		}
	}
	for _, file := range corpus.Files(t, "corpora/json-parsing/cases", "*.json") {
		if !classes[classOf(file)] {
			t.Errorf("no vector of the class of %s", filepath.Base(file))
		}
	}
}

// classOf returns the first two words of the name of a case.
func classOf(file string) string {
	words := strings.SplitN(strings.TrimSuffix(filepath.Base(file), ".json"), "_", 3)
	return words[0] + "_" + words[1]
}

// judge returns what is wrong with the verdict on a text, which its class tells.
func judge(class string, text []byte) string {
	err := strictjson.Check(text)
	switch {
	case class[0] == 'n' && err == nil:
		return "accepted"
	case class[0] == 'y' && err != nil:
		return err.Error()
	case class[0] == 'i' && err == nil && class != "i_number":
		return "accepted, though parsers disagree on it"
	}
	return ""
}

// TestJSONTestSuite runs the parsing cases of https://github.com/nst/JSONTestSuite where
// they are at hand.
func TestJSONTestSuite(t *testing.T) {
	t.Parallel()
	for _, file := range corpus.Files(t, "corpora/json-parsing/cases", "*.json") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, class := filepath.Base(file), classOf(file)
		if stricter(name) {
			class = "n_stricter"
		}
		if wrong := judge(class, text); wrong != "" {
			t.Errorf("%s: %s", name, wrong)
		}
	}
}
