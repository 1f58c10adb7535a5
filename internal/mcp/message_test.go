package mcp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// code returns the code of the error, 0 for none.
func code(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	var e *mcp.Error
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want an *mcp.Error", err)
	}
	return e.Code
}

// TestT1Smuggling puts members that imitate another one at every place that decides what
// a message does. Each must be refused, or leave the message what it would be without.
func TestT1Smuggling(t *testing.T) {
	t.Parallel()
	places := []struct{ known, message string }{
		{"method", `{"jsonrpc":"2.0","id":1,%s"method":"tools/list"}`},
		{"params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok"},%s"x":0}`},
		{"id", `{"jsonrpc":"2.0","id":1,%s"method":"tools/list"}`},
		{"jsonrpc", `{%s"jsonrpc":"2.0","id":1,"method":"tools/list"}`},
		{"name", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s"name":"ok"}}`},
		{"arguments", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok","arguments":{},%s"x":0}}`},
		{"uri", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"ok",%s"x":0}}`},
		{"requestState", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok",%s"requestState":"s"}}`},
		{"taskId", `{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"taskId":"ok",%s"x":0}}`},
		{"task", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s"name":"ok"}}`},
		{"_meta", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{},%s"name":"ok"}}`},
		{"progressToken", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok","_meta":{%s"progressToken":1}}}`},
		{
			mcp.MetaProtocolVersion,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok","_meta":{%s"x":1}}}`,
		},
		{
			mcp.MetaClientCapabilities,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok","_meta":{%s"x":1}}}`,
		},
	}
	for _, place := range places {
		for _, imitation := range imitations(place.known) {
			text := fmt.Sprintf(place.message, imitation+`:"evil",`)
			m, err := mcp.Decode([]byte(text))
			if got := code(t, err); got != mcp.CodeInvalidRequest && got != mcp.CodeParse {
				t.Errorf("%s: got error %v and message %+v, want it refused", text, err, m)
			}
			if err != nil && strings.Contains(err.Error(), "evil") {
				t.Errorf("%s: the error %v repeats the value", text, err)
			}
		}
		text := fmt.Sprintf(place.message, `"other":"evil",`)
		if _, err := mcp.Decode([]byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// imitations returns JSON strings that some parser takes for name.
func imitations(name string) []string {
	wide := strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7F {
			return r + 0xFEE0 // the full-width form
		}
		return r
	}, name)
	list := []string{
		strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], wide, name + `\u0000`, name + `\u0000x`,
		name + strings.Repeat(`\u0000`, 300),
		strings.NewReplacer("s", "ſ").Replace(name), strings.NewReplacer("k", "\u212A", "K",
			"\u212A").Replace(name), strings.ToLower(name),
		strings.NewReplacer("s", `\u017f`).Replace(name),
	}
	quoted := []string{}
	for _, imitation := range list {
		if imitation != name {
			quoted = append(quoted, `"`+imitation+`"`)
		}
	}
	return quoted
}

func TestT1Duplicates(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok","name":"evil"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok","n\u0061me":"evil"}}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ok","arguments":{"path":"a","path":"b"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}{"jsonrpc":"2.0","id":2,"method":"tools/call"}`,
	} {
		if m, err := mcp.Decode([]byte(text)); code(t, err) != mcp.CodeParse || m.ID != "" {
			t.Errorf("%s: got error %v and id %q, want code %d and none", text, err, m.ID, mcp.CodeParse)
		}
	}
}

// TestLongNamesAreNoTwins shows that a very long name is neither taken for a known one
// nor folded. It measures memory, so it runs alone.
func TestLongNamesAreNoTwins(t *testing.T) {
	long := strings.Repeat("\uFDFA", 1_000_000) // each would fold to 18 characters
	text := `{"jsonrpc":"2.0","id":1,"method":"tools/list","` + long + `":1}`
	if n := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := mcp.Decode([]byte(text)); err != nil {
				b.Fatal(err)
			}
		}
	}).AllocedBytesPerOp(); n > 4*int64(len(text)) {
		t.Errorf("%d bytes allocated for a text of %d", n, len(text))
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text                      string
		request, notification, response bool
		code                            int
		id                              mcp.ID
	}{
		{name: "request", text: `{"jsonrpc":"2.0","id":1,"method":"ping"}`, request: true, id: "1"},
		{
			name: "request with params", text: ` {"params":{},"method":"ping","id":"a","jsonrpc":"2.0"} `,
			request: true, id: `"a"`,
		},
		{
			name: "notification", text: `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
			notification: true,
		},
		{name: "result", text: `{"jsonrpc":"2.0","id":0,"result":{}}`, response: true, id: "0"},
		{
			name: "error", text: `{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}`,
			response: true, id: "2",
		},
		{
			name: "error without id", text: `{"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}}`,
			response: true,
		},
		{
			name: "error with null id",
			text: `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}`, response: true,
		},
		{
			name: "pretty", text: "{\n\t\"jsonrpc\": \"2.0\",\r\n\t\"id\": 1,\n\t\"method\": \"ping\"\n}\n",
			request: true, id: "1",
		},
		{name: "array", text: `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, code: mcp.CodeInvalidRequest},
		{name: "string", text: `"ping"`, code: mcp.CodeInvalidRequest},
		{name: "nothing", text: ``, code: mcp.CodeParse},
		{name: "empty object", text: `{}`, code: mcp.CodeInvalidRequest},
		{name: "no version", text: `{"id":1,"method":"ping"}`, code: mcp.CodeInvalidRequest, id: "1"},
		{
			name: "version 1.0", text: `{"jsonrpc":"1.0","id":1,"method":"ping"}`, code: mcp.CodeInvalidRequest,
			id: "1",
		},
		{
			name: "version as a number", text: `{"jsonrpc":2.0,"id":1,"method":"ping"}`,
			code: mcp.CodeInvalidRequest, id: "1",
		},
		{name: "null id", text: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, code: mcp.CodeInvalidRequest},
		{
			name: "null id with a method and an error",
			text: `{"jsonrpc":"2.0","id":null,"method":"ping","error":{"code":1}}`,
			code: mcp.CodeInvalidRequest,
		},
		{
			name: "null id of a result", text: `{"jsonrpc":"2.0","id":null,"result":{}}`,
			code: mcp.CodeInvalidRequest,
		},
		{
			name: "method null", text: `{"jsonrpc":"2.0","id":1,"method":null}`, code: mcp.CodeInvalidRequest,
			id: "1",
		},
		{
			name: "empty method", text: `{"jsonrpc":"2.0","id":1,"method":""}`, code: mcp.CodeInvalidRequest,
			id: "1",
		},
		{
			name: "long method", text: `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 129) + `"}`,
			code: mcp.CodeInvalidRequest, id: "1",
		},
		{
			name: "params as an array", text: `{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`,
			code: mcp.CodeInvalidRequest, id: "1",
		},
		{
			name: "meta as a string", text: `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":""}}`,
			code: mcp.CodeInvalidParams, id: "1",
		},
		{
			name: "method and result", text: `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`,
			code: mcp.CodeInvalidRequest, id: "1",
		},
		{
			name: "method and error", text: `{"jsonrpc":"2.0","id":1,"method":"ping","error":{"code":1}}`,
			code: mcp.CodeInvalidRequest, id: "1",
		},
		{
			name: "result and error", text: `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1}}`,
			code: mcp.CodeInvalidRequest, id: "1",
		},
		{name: "neither", text: `{"jsonrpc":"2.0","id":1}`, code: mcp.CodeInvalidRequest, id: "1"},
		{
			name: "result beside no error", text: `{"jsonrpc":"2.0","id":1,"result":{},"error":null}`,
			response: true, id: "1",
		},
		{
			name: "error beside no result", text: `{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1}}`,
			response: true, id: "1",
		},
		{
			name: "neither but for their names", text: `{"jsonrpc":"2.0","id":1,"result":null,"error":null}`,
			code: mcp.CodeInvalidRequest, id: "1",
		},
		{name: "result without id", text: `{"jsonrpc":"2.0","result":{}}`, code: mcp.CodeInvalidRequest},
		{
			name: "result as a string", text: `{"jsonrpc":"2.0","id":1,"result":"x"}`,
			code: mcp.CodeInvalidRequest, id: "1",
		},
		{
			name: "error as a string", text: `{"jsonrpc":"2.0","id":1,"error":"x"}`,
			code: mcp.CodeInvalidRequest, id: "1",
		},
		{
			name: "error without a code", text: `{"jsonrpc":"2.0","id":1,"error":{"message":"x"}}`,
			code: mcp.CodeInvalidRequest, id: "1",
		},
		{
			name: "error with a fraction", text: `{"jsonrpc":"2.0","id":1,"error":{"code":1.5}}`,
			code: mcp.CodeInvalidRequest, id: "1",
		},
	}
	for _, test := range tests {
		m, err := mcp.Decode([]byte(test.text))
		if got := code(t, err); got != test.code || m.ID != test.id {
			t.Errorf("%s: got error %v and id %q, want code %d and id %q", test.name, err, m.ID, test.code,
				test.id)
		}
		if err == nil && (m.IsRequest() != test.request || m.IsNotification() != test.notification ||
			m.IsResponse() != test.response) {
			t.Errorf("%s: got %+v", test.name, m)
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for id, ok := range map[string]bool{
		`0`: true, `-1`: true, `""`: true, `"a\u0000b"`: true, `"17"`: true, `-0`: true,
		`9007199254740991`: true, `-9007199254740991`: true,
		`"` + strings.Repeat("x", 128) + `"`: true, `"` + strings.Repeat("x", 129) + `"`: false,
		`9007199254740992`: false, `-9007199254740992`: false, `99999999999999999999`: false, `1.0`: false,
		`1e0`: false, `1.5`: false,
		`null`: false, `true`: false, `[]`: false, `{}`: false, `[1]`: false,
	} {
		m, err := mcp.Decode([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`))
		if (err == nil) != ok || ok && string(m.ID) != id || !ok && m.ID != "" {
			t.Errorf("id %.40s: got error %v and id %q, want it accepted: %v", id, err, m.ID, ok)
		}
	}
}

func TestErrorOfAResponse(t *testing.T) {
	t.Parallel()
	m, err := mcp.Decode(
		[]byte(
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"a\u0041","data":{"x":[1.0]},"other":1}}`))
	if err != nil {
		t.Fatal(err)
	}
	if m.Err.Code != -32042 || m.Err.Message != "aA" || string(m.Err.Data) != `{"x":[1.0]}` {
		t.Errorf("got %+v", m.Err)
	}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	params := mcp.NewObject(mcp.Member{Name: "a", Value: mcp.Int(1)})
	limited := mcp.Stable(mcp.CodeLimited, "DB-LIMIT-TENANT", `too "many"`).After(1500_000)
	for got, want := range map[string]string{
		string(mcp.AppendRequest(nil, "1", "ping",
			mcp.Object{})): `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		string(mcp.AppendRequest(nil, `"a"`, `a"b`,
			params)): `{"jsonrpc":"2.0","id":"a","method":"a\"b","params":{"a":1}}`,
		string(mcp.AppendRequest(nil, "", "notifications/x",
			params)): `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}`,
		string(mcp.AppendResult([]byte("x"), mcp.NumberID(-7),
			params)): `x{"jsonrpc":"2.0","id":-7,"result":{"a":1}}`,
		string(mcp.AppendError(nil, "", mcp.Errorf(mcp.CodeParse, "no %d",
			1))): `{"jsonrpc":"2.0","error":{"code":-32700,"message":"no 1"}}`,
		string(mcp.AppendError(nil, "3",
			limited)): `{"jsonrpc":"2.0","id":3,"error":{"code":429,"message":"too \"many\"","data":{"code":"DB-LIMIT-TENANT","retryAfterMs":1}}}`,
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if limited.StableCode() != "DB-LIMIT-TENANT" {
		t.Errorf("got stable code %q", limited.StableCode())
	}
}

func TestEras(t *testing.T) {
	t.Parallel()
	for revision, want := range map[string]mcp.Era{
		"2026-07-28": mcp.Modern, "2025-11-25": mcp.Legacy, "2025-06-18": mcp.Legacy,
		"2025-03-26": mcp.Legacy, "2024-11-05": mcp.Legacy,
		"": 0, "2024-10-07": 0, "2026-07-29": 0, "2026-07-28x": 0,
	} {
		if got := mcp.EraOf(revision); got != want {
			t.Errorf("EraOf(%q) = %d, want %d", revision, got, want)
		}
	}
}

// FuzzDecode shows that what is decoded and written again is decoded to the same, and
// that nothing but one of the three kinds of message comes out.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(modernCall))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"a","result":{"content":[]}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","error":{"code":1,"message":"x","data":null}}`))
	f.Add([]byte("{\n\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"Params\":{}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := mcp.Decode(data)
		if m == nil {
			t.Fatalf("%q: no message", data)
		}
		if err != nil {
			if c := code(t, err); c != mcp.CodeParse && c != mcp.CodeInvalidRequest &&
				c != mcp.CodeInvalidParams {
				t.Errorf("%q: got code %d", data, c)
			}
			return
		}
		text := write(m)
		if err := strictjson.Check(text); err != nil || strings.ContainsAny(string(text), "\r\n") {
			t.Fatalf("%q was written as %q: %v", data, text, err)
		}
		again, err := mcp.Decode(text)
		if err != nil || string(write(again)) != string(text) {
			t.Errorf("%q was written as %q and then as %q, error %v", data, text, write(again), err)
		}
	})
}

func write(m *mcp.Message) []byte {
	switch {
	case m.Err != nil:
		return mcp.AppendError(nil, m.ID, m.Err)
	case m.IsResponse():
		return mcp.AppendResult(nil, m.ID, m.Result)
	}
	return mcp.AppendRequest(nil, m.ID, m.Method, m.Params)
}

// TestSplitResultIsTheResponse joins the parts again, for every member and for none.
func TestSplitResultIsTheResponse(t *testing.T) {
	for _, text := range []string{
		`{}`, `{"a":1}`, `{"tools":[1,2],"b":{"tools":3}}`,
		`{"b":"x","to\\nols":[],"tools":[]}`,
	} {
		result, err := mcp.ParseObject([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		want := string(mcp.AppendResult(nil, `"id"`, result))
		for _, member := range []string{"tools", "a", "b", "none"} {
			head, value, tail := mcp.SplitResult(`"id"`, result, member)
			if got := string(head) + string(value) + string(tail); got != want ||
				string(value) != string(result.Value(member)) {
				t.Errorf("around %s: got %q, %q, %q, want %s", member, head, value, tail, want)
			}
		}
	}
}
