package interop_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// shape is a message before anything was done to it.
type shape struct {
	name string
	body map[string]any
}

// modernShapes are one request or notification of each method of the newest revision, all
// valid.
func modernShapes(t testing.TB) []shape {
	t.Helper()
	data, err := os.ReadFile("testdata/messages.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []shape
	for line := range bytes.Lines(data) {
		var body map[string]any
		if err := json.Unmarshal(line, &body); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		name, _ := body["method"].(string)
		all = append(all, shape{name, body})
	}
	return all
}

// TestShapesAreValid holds the messages of testdata against the official schema, which
// must have no method beside theirs.
func TestShapesAreValid(t *testing.T) {
	t.Parallel()
	s := official(t, modernRevision)
	missing := make(map[string]string)
	for _, definitions := range []map[string]string{requestDefinitions, notificationDefinitions} {
		for method, name := range definitions {
			if s.have[name] {
				missing[method] = name
			}
		}
	}
	for _, one := range modernShapes(t) {
		delete(missing, one.name)
		raw, err := json.Marshal(one.body)
		if err != nil {
			t.Fatal(err)
		}
		s.told(t, "", raw)
	}
	if len(missing) > 0 {
		t.Errorf("no message of %v", missing)
	}
}

// legacyShapes are one message of each method of the older revisions.
func legacyShapes(t testing.TB) []shape {
	t.Helper()
	var all []shape
	for _, text := range []string{
		`{"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{}},"clientInfo":{"name":"a","version":"1","title":"A"}}}`,
		`{"method":"ping","params":{"_meta":{"progressToken":1}}}`,
		`{"method":"tools/list","params":{"cursor":"x","_meta":{"progressToken":"p"}}}`,
		`{"method":"tools/call","params":{"name":"up__ok","arguments":{"a":{"b":[1,"2",null,{"c":true}]}},"_meta":{"progressToken":1.5}}}`,
		`{"method":"tools/call","params":{"name":"own__calculate","arguments":{"expression":"1+1"},"task":{"ttl":60}}}`,
		`{"method":"tools/call","params":{"name":"own__current_time","arguments":{"timezone":"UTC"}}}`,
		`{"method":"prompts/list"}`, `{"method":"prompts/get","params":{"name":"x","arguments":{"a":"b"}}}`,
		`{"method":"resources/list"}`, `{"method":"resources/read","params":{"uri":"file:///x"}}`,
		`{"method":"resources/templates/list"}`,
		`{"method":"resources/subscribe","params":{"uri":"file:///x"}}`,
		`{"method":"logging/setLevel","params":{"level":"debug"}}`,
		`{"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":"b"},"context":{"arguments":{"c":"d"}}}}`,
		`{"method":"tasks/get","params":{"taskId":"1"}}`, `{"method":"server/discover"}`,
		`{"method":"notifications/cancelled","params":{"requestId":1,"reason":"r"}}`,
		`{"method":"notifications/progress","params":{"progressToken":1,"progress":1,"total":2,"message":"m"}}`,
		`{"method":"notifications/initialized"}`, `{"method":"notifications/roots/list_changed"}`,
		`{"result":{"roots":[{"uri":"file:///","name":"r"}]}}`,
		`{"error":{"code":-1,"message":"m","data":{"a":1}}}`,
	} {
		body := map[string]any{}
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatal(err)
		}
		body["jsonrpc"], body["id"] = "2.0", 3
		name, _ := body["method"].(string)
		if strings.HasPrefix(name, "notifications/") {
			delete(body, "id")
		}
		all = append(all, shape{name, body})
	}
	return all
}

// mutations returns body with each value in it taken away, made null and made something
// else.
func mutations(body any) []string {
	var texts []string
	keep := func() {
		if text, err := json.Marshal(body); err == nil {
			texts = append(texts, string(text))
		}
	}
	keep()
	var walk func(value any)
	try := func(old any, set func(any)) {
		for _, other := range []any{
			nil, true, -1, 1e300, "", "\u0000\u202e", strings.Repeat("x", 3000),
			[]any{},
			[]any{old, old},
			map[string]any{},
			map[string]any{"": old},
			json.Number("18446744073709551616"),
		} {
			set(other)
			keep()
		}
		set(old)
		walk(old)
	}
	walk = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			names := make([]string, 0, len(v))
			for name := range v {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range names {
				old := v[name]
				delete(v, name)
				keep()
				try(old, func(other any) { v[name] = other })
			}
		case []any:
			for i, old := range v {
				try(old, func(other any) { v[i] = other })
			}
		}
	}
	walk(body)
	return texts
}

func TestT17NoShapeOfAMessageHurts(t *testing.T) {
	t.Parallel()
	up := ambush(t, &hostile{tools: tool("ok")})
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  own: {builtin: [calculate, current_time]}\n  up: "+
		private(up.URL)+"\n"))
	token := g.mint(who{tenant: "acme", subject: "alice"})
	tried := 0
	for _, revision := range revisions() {
		shapes := legacyShapes(t)
		if revision == modernRevision {
			shapes = modernShapes(t)
		}
		s := g.speak(t, token, revision)
		if s.stream != nil {
			go func() {
				for range s.stream.data { // only that the gateway lives counts
				}
			}()
		}
		for _, one := range shapes {
			headers := said(one.body)
			for _, body := range mutations(one.body) {
				tried++
				var a answer
				if headers[1] == "subscriptions/listen" {
					a.status = s.begin(t, body, headers...)
				} else {
					a = s.post(t, body, headers...)
				}
				if a.status >= http.StatusInternalServerError || a.status == http.StatusTooManyRequests {
					t.Errorf("%s %s: %d %s for %.300s", revision, one.name, a.status, a.body, body)
				}
			}
		}
		if s.stream == nil && s.ask(t, `"after"`, "tools/list", "", "").Result == nil {
			t.Errorf("%s: no list after it all", revision)
		}
	}
	g.unhurt(t)
	t.Logf("%d messages", tried)
}

// begin sends a body and returns the status; what follows may be a stream without end.
func (s *speaker) begin(t testing.TB, body string, headers ...string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.endpoint,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	headers = append(headers, "Authorization", "Bearer "+s.token, "Content-Type", "application/json",
		"MCP-Protocol-Version", s.revision)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// said are the headers that go with a message.
func said(body map[string]any) []string {
	method, _ := body["method"].(string)
	params, _ := body["params"].(map[string]any)
	name, _ := params["name"].(string)
	if uri, ok := params["uri"].(string); ok {
		name = uri
	}
	return []string{"Mcp-Method", method, "Mcp-Name", name}
}

func TestT37HostileJSON(t *testing.T) {
	t.Parallel()
	up := ambush(t, &hostile{tools: tool("ok")})
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  up: "+private(up.URL)+"\n"))
	s := g.speak(t, g.mint(who{tenant: "acme", subject: "alice"}), modernRevision)
	call := func(arguments string) answer {
		return s.post(
			t, fmt.Sprintf(
				`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{%s,"name":"up__ok","arguments":%s}}`,
				modernMeta, arguments), "Mcp-Method", "tools/call", "Mcp-Name", "up__ok")
	}
	for what, arguments := range map[string]string{
		"deep arrays":     `{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
		"deep objects":    strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat("}", 100_000),
		"unclosed":        `{"a":` + strings.Repeat("[", 1_000_000),
		"many values":     `{"a":[` + strings.Repeat("1,", 400_000) + `1]}`,
		"long number":     `{"a":` + strings.Repeat("9", 100_000) + `}`,
		"large exponent":  `{"a":1e999999999}`,
		"long fraction":   `{"a":0.` + strings.Repeat("1", 5000) + `}`,
		"control":         "{\"a\":\"\x01\"}",
		"bad UTF-8":       "{\"a\":\"\xc0\xaf\"}",
		"lone surrogate":  `{"a":"\ud800"}`,
		"single quotes":   `{'a':1}`,
		"comment":         `{"a":1/**/}`,
		"NaN":             `{"a":NaN}`,
		"leading zero":    `{"a":01}`,
		"trailing comma":  `{"a":1,}`,
		"repeated inside": `{"a":[{"b":{"c":1,"c":2}}]}`,
	} {
		if a := call(arguments); a.status != http.StatusBadRequest || len(a.body) > 1000 {
			t.Errorf("%s: %d %.200s, want a short 400", what, a.status, a.body)
		}
	}
	if a := call(`{"n":[12345678901234567890,1.10,1E2,-0],"s":"\u00e9"}`); a.status != http.StatusOK {
		t.Errorf("plain arguments gave %d %s", a.status, a.body)
	}
	ran := up.executions()
	if len(ran) != 1 || !strings.Contains(ran[0].arguments, `[12345678901234567890,1.10,1E2,-0]`) {
		t.Errorf("the upstream ran %d calls, want the plain one with its numbers as written: %v", len(ran),
			ran)
	}
	g.unhurt(t)
}
