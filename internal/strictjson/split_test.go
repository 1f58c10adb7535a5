package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	data := []byte(
		" {\r\n\t\"a\" : 1 ,\"b\\u0022\\\\\":\"x\\\"}\" , \"\":[ 1, {\"]\":2} ]\n,\"z\":{\"y\":null}, \"t\":true\t} \n")
	members, err := strictjson.Members(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	var got [][2]string
	for _, m := range members {
		got = append(got, [2]string{m.Name, string(m.Value)})
		if cap(m.Value) != len(m.Value) {
			t.Errorf("%q: an append would write into the text", m.Name)
		}
	}
	want := [][2]string{
		{"a", "1"},
		{`b"\`, `"x\"}"`},
		{"", `[ 1, {"]":2} ]`},
		{"z", `{"y":null}`},
		{"t", "true"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestElements(t *testing.T) {
	t.Parallel()
	elements, err := strictjson.Elements[[]byte]([]byte(` [1 , "a,]" ,[[]],{"b":[2]},null,-1.5e3 ] `))
	if err != nil {
		t.Fatal(err)
	}
	got := string(bytes.Join(elements, []byte("|")))
	if want := `1|"a,]"|[[]]|{"b":[2]}|null|-1.5e3`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNotOfThisKind(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "1", `"{}"`, "null", "{", "[", `{"a"`, `{"a":`, `{"a":}`, `{"a":1`,
		`{"a":1,}`, "[1", "[1,", "[,]", `{"a":"\`, `["\`,
	} {
		if members, err := strictjson.Members(nil, []byte(text)); err == nil {
			t.Errorf("Members(%q) = %v, want an error", text, members)
		}
		if elements, err := strictjson.Elements[[]byte]([]byte(text)); err == nil {
			t.Errorf("Elements(%q) = %q, want an error", text, elements)
		}
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                    `""`,
		"a\"\\/b":             `"a\"\\/b"`,
		"\x00\x1f\n\r\t\b\f":  `"\u0000\u001f\n\r\t\b\f"`,
		"é€\U0001F600\u2028<": "\"é€\U0001F600\u2028<\"",
		"\xffa\xed\xa0\x80":   "\"\uFFFDa\uFFFD\"",
	} {
		got := strictjson.AppendQuote([]byte("x"), text)
		if string(got) != "x"+want {
			t.Errorf("AppendQuote(%q) = %s, want %s", text, got, want)
		}
		if back, err := strictjson.Unquote(got[1:]); err != nil ||
			back != strings.ToValidUTF8(text, "\uFFFD") {
			t.Errorf("Unquote(%s) = %q, error %v, want %q", got[1:], back, err, text)
		}
	}
	for _, text := range []string{"", `"`, `a`, `"\x"`, `"\ud800"`, `1`} {
		if got, err := strictjson.Unquote([]byte(text)); err == nil {
			t.Errorf("Unquote(%q) = %q, want an error", text, got)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"Params", "PARAMS", "paramſ", "params\x00", "params\x00\x00", "params\x00evil", "ｐａｒａｍｓ", "𝐩𝐚𝐫𝐚𝐦𝐬",
		"ⓟⓐⓡⓐⓜⓢ", "PARAMſ",
	} {
		if got := strictjson.Fold(name); got != "params" {
			t.Errorf("Fold(%q) = %q, want %q", name, got, "params")
		}
	}
	if got := strictjson.Fold("\u212Aey"); got != "key" { // the Kelvin sign
		t.Errorf("Fold of the Kelvin sign: got %q, want %q", got, "key")
	}
	for _, name := range []string{"params", "param", "pаrams" /* Cyrillic a */, "params ", "_params", ""} {
		if got := strictjson.Fold(name); got != name {
			t.Errorf("Fold(%q) = %q, want it unchanged", name, got)
		}
	}
}

// TestMendingAllocatesNothingForAnEscape: a text of 8 MiB may have a million that are
// wrong.
func TestMendingAllocatesNothingForAnEscape(t *testing.T) {
	data := bytes.Repeat([]byte(`\uzzzz`), 1000)
	if got := testing.AllocsPerRun(10, func() { _, _ = strictjson.Mend(data) }); got > 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}

func TestMend(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text, want string
		count            int
	}{
		{"nothing to mend", `{"a":"\ud83d\ude00 \\ud800 \"é"}`, `{"a":"\ud83d\ude00 \\ud800 \"é"}`, 0},
		{"lone high", `"\ud83d"`, `"\ufffd"`, 1},
		{"lone low", `"\uDE00"`, `"\ufffd"`, 1},
		{"wrong order", `"\ude00\ud83d"`, `"\ufffd\ufffd"`, 2},
		{"high before a pair", `"\ud83d\ud83d\ude00"`, `"\ufffd\ud83d\ude00"`, 1},
		{"high before a letter", `"\ud83dx\u0041"`, `"\ufffdx\u0041"`, 1},
		{"high before an escape", `"\ud83d\n"`, `"\ufffd\n"`, 1},
		{"behind an escaped backslash", `"\\\ud83d"`, `"\\\ufffd"`, 1},
		{"bad byte", "\"a\xffb\"", "\"a\uFFFDb\"", 1},
		{"encoded surrogate", "\"\xed\xa0\x80\"", "\"\uFFFD\uFFFD\uFFFD\"", 3},
		{"cut character", "\"\xe2\x82\"", "\"\uFFFD\uFFFD\"", 2},
		{"both kinds", "\"\xff\\udc00\"", "\"\uFFFD\\ufffd\"", 2},
		{"a real U+FFFD", "\"\uFFFD\\ufffd\"", "\"\uFFFD\\ufffd\"", 0},
	}
	for _, test := range tests {
		got, count := strictjson.Mend([]byte(test.text))
		if string(got) != test.want || count != test.count {
			t.Errorf("%s: Mend(%q) = %q, %d, want %q, %d", test.name, test.text, got, count, test.want,
				test.count)
		}
		if err := strictjson.Check(got); err != nil {
			t.Errorf("%s: %q after mending: %v", test.name, got, err)
		}
	}
}

func TestUnmarshal(t *testing.T) {
	t.Parallel()
	type target struct {
		Name string `json:"name"`
	}
	var v target
	if err := strictjson.Unmarshal([]byte(`{"Name":"evil","name":"ok","NAME":"evil","other":1}`),
		&v); err != nil || v.Name != "ok" {
		t.Errorf("got %+v and error %v, want the exact name's value", v, err)
	}
	v = target{}
	if err := strictjson.Unmarshal([]byte(`{"NAME":"evil","name\u0000":"evil"}`), &v); err != nil ||
		v.Name != "" {
		t.Errorf("got %+v and error %v, want nothing", v, err)
	}
	var syntax *strictjson.SyntaxError
	if err := strictjson.Unmarshal([]byte(`{"name":"ok","name":"evil"}`), &v); !errors.As(err, &syntax) {
		t.Errorf("got error %v, want a *SyntaxError", err)
	}
	if err := strictjson.Unmarshal([]byte(`{"name":7}`), &v); err == nil {
		t.Error("a number became a string")
	}
}

func TestMarshalAndCompact(t *testing.T) {
	t.Parallel()
	if got, err := strictjson.Marshal(map[string]any{"b": []int{1}, "a": "<é>"}); err != nil ||
		string(got) != `{"a":"<é>","b":[1]}` {
		t.Errorf("Marshal: got %s and error %v", got, err)
	}
	text := []byte("{ \"a b\" :\n [ 1.0 , 1e2,\t\"\\u0061 \\/\"] }")
	before := string(text)
	if got, err := strictjson.Compact(text); err != nil || string(got) != `{"a b":[1.0,1e2,"\u0061 \/"]}` ||
		string(text) != before {
		t.Errorf("Compact: got %s and error %v", got, err)
	}
}

// FuzzCheck shows that what passes is read alike by encoding/json, and that taking it
// apart loses nothing.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{
		string(request), `{"a":[1,{"b":null}],"c":"\ud83d\ude00"}`, `[1,-0,1e5,"\\",{},[]]`, ` "x" `,
		`{"a":1,"\u0061":2}`, "\"\xff\"", `{"a\u0000":true}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		members, errMembers := strictjson.Members(nil, data) // neither may panic, whatever the text
		elements, errElements := strictjson.Elements[[]byte](data)
		for range strictjson.Tokens(data) {
		}
		walk(new(strictjson.CursorOf(data)))
		mended, count := strictjson.Mend(data)
		if again, n := strictjson.Mend(mended); n != 0 || !bytes.Equal(again, mended) || !utf8.Valid(mended) {
			t.Errorf("Mend(%q) = %q (%d), and again %q (%d)", data, mended, count, again, n)
		}
		if strictjson.Check(data) != nil {
			return
		}
		if count != 0 || !bytes.Equal(mended, data) {
			t.Errorf("Mend changed %q, which passed Check, to %q", data, mended)
		}
		sameTokens(t, data)
		sameValues(t, data)
		switch trimmed := bytes.TrimLeft(data, " \t\r\n"); trimmed[0] {
		case '{':
			sameMembers(t, data, members, errMembers)
		case '[':
			sameElements(t, data, elements, errElements)
		default:
			if errMembers == nil || errElements == nil {
				t.Errorf("%q was taken apart", data)
			}
		}
	})
}

func sameMembers(t *testing.T, data []byte, members []strictjson.Member, err error) {
	t.Helper()
	var want map[string]json.RawMessage
	if e := json.Unmarshal(data, &want); e != nil || err != nil || len(want) != len(members) {
		t.Fatalf("%q: %d members and errors %v and %v, want %d members", data, len(members), err, e,
			len(want))
	}
	for _, m := range members {
		if string(want[m.Name]) != string(m.Value) {
			t.Errorf("%q: member %q is %q, want %q", data, m.Name, m.Value, want[m.Name])
		}
	}
}

func sameTokens(t *testing.T, data []byte) {
	t.Helper()
	want := json.NewDecoder(bytes.NewReader(data))
	for offset, token := range strictjson.Tokens(data) {
		if _, err := want.Token(); err != nil {
			t.Fatalf("%q: token %q at %d, want %v", data, token, offset, err)
		}
		if end := offset + len(token); int64(end) != want.InputOffset() ||
			string(data[offset:end]) != string(token) {
			t.Fatalf("%q: token %q ends at %d, want %d", data, token, end, want.InputOffset())
		}
	}
	if token, err := want.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("%q: no more tokens before %v, error %v", data, token, err)
	}
}

// walk goes through the next value and returns its tokens in one line, without looking at
// the text itself.
func walk(c *strictjson.Cursor) string {
	switch c.Kind() {
	case '{':
		var members []string
		for c.Enter(); c.More(); {
			members = append(members, string(c.Next())+":"+walk(c))
		}
		return "{" + strings.Join(members, ",") + "}"
	case '[':
		var elements []string
		for c.Enter(); c.More(); {
			elements = append(elements, walk(c))
		}
		return "[" + strings.Join(elements, ",") + "]"
	}
	return string(c.Next())
}

// sameValues compares what a cursor finds, by going through values and by passing them,
// with the compact text.
func sameValues(t *testing.T, data []byte) {
	t.Helper()
	var want bytes.Buffer
	if err := json.Compact(&want, data); err != nil {
		t.Fatal(err)
	}
	c := strictjson.CursorOf(data)
	if got := walk(&c); got != want.String() || c.Kind() != 0 {
		t.Errorf("%q: a cursor went through %s up to byte %d, want %s up to the end", data, got, c.At(),
			&want)
	}
	c = strictjson.CursorOf(data)
	if got, whole := c.Next(), bytes.Trim(data, " \t\r\n"); !bytes.Equal(got, whole) {
		t.Errorf("%q: a cursor passed %q, want %q", data, got, whole)
	}
}

func sameElements(t *testing.T, data []byte, elements [][]byte, err error) {
	t.Helper()
	var want []json.RawMessage
	if e := json.Unmarshal(data, &want); e != nil || err != nil || len(want) != len(elements) {
		t.Fatalf("%q: %d elements and errors %v and %v, want %d elements", data, len(elements), err, e,
			len(want))
	}
	for i := range elements {
		if string(want[i]) != string(elements[i]) {
			t.Errorf("%q: element %d is %q, want %q", data, i, elements[i], want[i])
		}
	}
}

// FuzzMend shows that a text which is JSON but for its characters passes Check after
// mending, unless mending made two names alike.
func FuzzMend(f *testing.F) {
	f.Add([]byte("\\ud800\xff"))
	f.Add([]byte(`\\ud800 \ud83d\ude00 \ud83d\ud83d`))
	f.Fuzz(func(t *testing.T, inner []byte) {
		data := append(append([]byte(`{"a":"`), inner...), `"}`...)
		lenient := json.NewDecoder(bytes.NewReader(data))
		var v map[string]string
		if lenient.Decode(&v) != nil || len(v) != 1 || v["a"] == "" || bytes.Contains(inner, []byte(`"`)) {
			return
		}
		if _, err := lenient.Token(); !errors.Is(err, io.EOF) {
			return
		}
		mended, _ := strictjson.Mend(data)
		if err := strictjson.Check(mended); err != nil {
			t.Fatalf("Mend(%q) = %q: %v", data, mended, err)
		}
		var got map[string]string
		if err := json.Unmarshal(mended, &got); err != nil || got["a"] != v["a"] {
			t.Errorf("Mend(%q) reads %q, error %v, want %q", data, got["a"], err, v["a"])
		}
	})
}

// FuzzQuote shows that a text comes back from its JSON form.
func FuzzQuote(f *testing.F) {
	f.Add("a\"\\\u2028\x00\xff")
	f.Fuzz(func(t *testing.T, text string) {
		quoted := strictjson.AppendQuote(nil, text)
		if err := strictjson.Check(quoted); err != nil {
			t.Fatalf("AppendQuote(%q) = %q: %v", text, quoted, err)
		}
		if got, err := strictjson.Unquote(quoted); err != nil || got != strings.ToValidUTF8(text, "\uFFFD") {
			t.Errorf("%q came back as %q, error %v", text, got, err)
		}
	})
}

func TestTextsAreAllOrNone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`[]`: {}, `["a", "\u0022"]`: {"a", `"`}, `["a",1]`: nil, `"a"`: nil, `{}`: nil, "": nil,
	} {
		if got, ok := strictjson.Texts([]byte(text)); ok != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("Texts(%s) = %q, %t, want %q", text, got, ok, want)
		}
	}
}

func TestTextsAndMembersAreFound(t *testing.T) {
	t.Parallel()
	members, err := strictjson.Members(nil, []byte(`{"a":"x\u0022","n":1,"e":""}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, text string
		is         bool
	}{{"a", `x"`, true}, {"e", "", true}, {"n", "", false}, {"A", "", false}} {
		text, is := strictjson.Text(strictjson.Find(members, test.name))
		if text != test.text || is != test.is {
			t.Errorf("%s: got %q, %t, want %q, %t", test.name, text, is, test.text, test.is)
		}
	}
}
