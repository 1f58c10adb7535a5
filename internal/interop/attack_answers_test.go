package interop_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// oddAnswer is one way for an upstream to answer a call. ID stands for the id of the
// request.
type oddAnswer struct {
	name, media, body string
	status            int
}

// oddAnswers are answers of which nothing may pass.
func oddAnswers() []oddAnswer {
	const fine = `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"leak"}]}}`
	all := []oddAnswer{
		{
			"unknown kind of result", "application/json",
			`{"jsonrpc":"2.0","id":ID,"result":{"resultType":"leak","content":[{"type":"text","text":"leak"}]}}`, 200,
		},
		{"no content", "application/json", `{"jsonrpc":"2.0","id":ID,"result":{"content":"leak"}}`, 200},
		{"wrong id", "application/json", strings.Replace(fine, "ID", "9999", 1), 200},
		{"id as text", "application/json", strings.Replace(fine, "ID", `"ID"`, 1), 200},
		{"id null", "application/json", strings.Replace(fine, "ID", `null`, 1), 200},
		{"no version", "application/json", strings.Replace(fine, `"jsonrpc":"2.0",`, "", 1), 200},
		{"version 1.0", "application/json", strings.Replace(fine, `2.0`, "1.0", 1), 200},
		{"twice", "application/json", fine + fine, 200},
		{"cut", "application/json", fine[:len(fine)-3], 200},
		{"empty", "application/json", "", 200},
		{"result text", "application/json", `{"jsonrpc":"2.0","id":ID,"result":"leak"}`, 200},
		{
			"result and error", "application/json",
			`{"jsonrpc":"2.0","id":ID,"result":{"x":"leak"},"error":{"code":1,"message":"leak"}}`, 200,
		},
		{
			"doubled key", "application/json",
			`{"jsonrpc":"2.0","id":ID,"result":{"content":[]},"result":{"content":[{"type":"text","text":"leak"}]}}`, 200,
		},
		{"half a stream", "text/event-stream", "data: " + fine, 200},
		{"stream of garbage", "text/event-stream", "data: {leak\n\ndata: leak\n\n", 200},
		{"stream of one long line", "text/event-stream", "data: " + strings.Repeat("leak", 8<<20), 200},
		{"stream as JSON", "application/json", "data: " + fine + "\n\n", 200},
		{"JSON as stream", "text/event-stream", fine, 200},
		{"huge", "application/json", `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"` +
			strings.Repeat("leak", 5<<20) + `"}]}}`, 200},
	}
	for _, status := range []int{
		202, 203, 204, 206, 226, 300, 301, 302, 307, 400, 401, 403, 404, 410,
		418, 429, 500, 502, 503, 504, 599,
	} {
		all = append(all, oddAnswer{fmt.Sprint("status ", status), "application/json", fine, status})
	}
	for _, media := range []string{
		"text/html", "text/plain", "", "application/xml",
		"application/octet-stream", "application/json5", "application/jsonp", "text/event-stream2",
		"multipart/form-data", "application/problem+json", "x", ";;;",
	} {
		all = append(all, oddAnswer{"media " + media, media, fine, 200})
	}
	return all
}

func TestT9OddAnswersNeverPass(t *testing.T) {
	t.Parallel()
	table := oddAnswers()
	for _, modern := range []bool{false, true} {
		up := ambush(t, &hostile{tools: tool("odd"), modern: modern})
		up.answer = func(w http.ResponseWriter, id json.RawMessage, e execution, _ json.RawMessage) {
			var which struct{ Row int }
			_ = json.Unmarshal([]byte(e.arguments), &which) // the first row otherwise
			row := table[which.Row]
			w.Header()["Content-Type"] = []string{row.media}
			w.Header().Set("Location", up.URL+"/elsewhere")
			w.Header().Set("Set-Cookie", "leak=leak")
			w.WriteHeader(row.status)
			fmt.Fprint(w, strings.ReplaceAll(row.body, "ID", string(id)))
		}
		g := besiege(t, twoTenants(`{allow: ["*"]}`, "  up: "+private(up.URL)+
			"\n  own: {builtin: [calculate]}\n"))
		token := g.mint(who{tenant: "acme", subject: "alice"})
		for i, row := range table {
			eventually(t, "the tool is listed",
				func() bool { return slices.Contains(g.tools(t, token), "up__odd") })
			a := g.modern(t, token, "tools/call", "up__odd",
				fmt.Sprintf(`"name":"up__odd","arguments":{"row":%d}`, i))
			m := a.last(t)
			if m.Error == nil || m.Error.Code != -32603 || strings.Contains(string(a.body), "leak") ||
				a.status != http.StatusOK {
				t.Errorf("%s: %d %.300s, want an error of the gateway", row.name, a.status, a.body)
			}
			if text, _ := g.text(t, token, "own__calculate", `{"expression":"1+1"}`); !strings.Contains(text,
				"2") {
				t.Errorf("after %s the other server gives %s", row.name, text)
			}
		}
		for _, header := range up.headers() {
			if header.Get("Cookie") != "" {
				t.Error("a cookie of the upstream was sent back")
			}
		}
		g.unhurt(t)
		t.Logf("%d answers", len(table))
	}
}

// What a modern upstream asks that the client does not declare it can be asked stays
// inside; the client is told which capability it would take.
// https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr
func TestT9QuestionsNobodyDeclaredNeverPass(t *testing.T) {
	t.Parallel()
	const question = `{"resultType":"input_required","requestState":"leak","inputRequests":{"leak":{"method":"elicitation/create","params":{"mode":"url","message":"leak","url":"https://leak.test/","elicitationId":"leak"}}}}`
	for _, modern := range []bool{false, true} {
		up := ambush(t, &hostile{
			tools: tool("odd"), modern: modern,
			answer: func(w http.ResponseWriter, id json.RawMessage, _ execution, _ json.RawMessage) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, question)
			},
		})
		g := besiege(t, twoTenants(`{allow: ["*"]}`, "  up: "+private(up.URL)+"\n"))
		for _, revision := range revisions() {
			s := g.speak(t, g.mint(who{tenant: "acme", subject: "alice"}), revision)
			m := s.ask(t, "1", "tools/call", "up__odd", `"name":"up__odd","arguments":{}`)
			text := fmt.Sprintf("%s %+v", m.Result, m.Error)
			if m.Error != nil {
				text += string(m.Error.Data)
			}
			if strings.Contains(text, "leak") {
				t.Errorf("%s before modern %v: the question passed: %s", revision, modern, text)
			}
			switch {
			case !modern: // no legacy server asks so
				if m.Error == nil || m.Error.Code != -32603 {
					t.Errorf("%s: got %s, want an error of the gateway", revision, text)
				}
			case revision == modernRevision:
				if m.Error == nil || m.Error.Code != -32021 || !strings.Contains(string(m.Error.Data),
					`"requiredCapabilities":{"elicitation":{"url":{}}}`) {
					t.Errorf("got %s, want -32021 with what is required", text)
				}
			case !strings.Contains(string(m.Result), `"isError":true`): // legacy revisions have no such error
				t.Errorf("%s: got %s, want a tool error", revision, text)
			}
		}
		a := g.modern(t, g.mint(who{tenant: "acme", subject: "alice"}), "tools/call", "up__odd",
			`"name":"up__odd","arguments":{}`)
		if want := map[bool]int{false: http.StatusOK, true: http.StatusBadRequest}[modern]; a.status != want {
			t.Errorf("before modern %v: status %d, want %d", modern, a.status, want)
		}
		g.unhurt(t)
	}
}

func TestUpstreamErrorsSpeakForTheUpstreamOnly(t *testing.T) {
	t.Parallel()
	codes := []int{
		401, 403, 404, 413, 429, 503, 200, 0, 1, -1, -32603, -32602, -32601, -32700, -32600,
		-32001, -32020, -32021, -32022, -32042,
	}
	up := ambush(t, &hostile{tools: tool("fail"), answer: func(w http.ResponseWriter, id json.RawMessage,
		e execution, _ json.RawMessage,
	) {
		var which struct{ Code int }
		_ = json.Unmarshal([]byte(e.arguments), &which) // 0 otherwise
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(
			w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"a\u202eb\u001b[31m","data":{"code":"DB-SCOPE canary","scope":"admin everything","retryAfterMs":1,"note":"kept"}}}`, id, which.Code)
	}})
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  up: "+private(up.URL)+"\n"))
	for _, revision := range revisions() {
		s := g.speak(t, g.mint(who{tenant: "acme", subject: "alice"}), revision)
		for _, code := range codes {
			params := fmt.Sprintf(`"name":"up__fail","arguments":{"code":%d}`, code)
			if revision == modernRevision {
				a := g.modern(t, s.token, "tools/call", "up__fail", params)
				if a.header.Get("WWW-Authenticate") != "" || a.header.Get("Retry-After") != "" ||
					a.status != http.StatusOK && code != -32021 {
					t.Errorf("an upstream's error %d made the gateway answer %d %v", code, a.status, a.header)
				}
			}
			m := s.ask(t, fmt.Sprint(1000+code*code), "tools/call", "up__fail", params)
			if code == -32021 && revision != modernRevision || code == -32042 {
				// Only 2026-07-28 has the first, and no client here can open an address,
				// which the second is about: both calls end in a result, from which the
				// model learns why.
				if text := string(m.Result); m.Error != nil || !strings.Contains(text, `"isError":true`) ||
					strings.Contains(text, "DB-SCOPE") {
					t.Errorf("%s: an upstream's error %d became %s %+v, want a tool error", revision, code,
						text, m.Error)
				}
				continue
			}
			if m.Error == nil {
				t.Fatalf("%s: an upstream's error %d became %s", revision, code, m.Result)
			}
			if strings.Contains(string(m.Error.Data), "DB-SCOPE") ||
				slices.Contains([]int{401, 403, 404, 429, 503}, m.Error.Code) {
				t.Errorf("%s: an upstream's error %d became %v %s: it passes for the gateway's own", revision,
					code, m.Error, m.Error.Data)
			} else if m.Error.Message != "ab" || !strings.Contains(string(m.Error.Data), `"note":"kept"`) {
				t.Errorf("%s: an upstream's error %d became %v %s, want its own words, cleaned", revision,
					code, m.Error, m.Error.Data)
			}
		}
	}
	if strings.Contains(g.out.String(), "canary") {
		t.Error("an upstream wrote into the log")
	}
	g.unhurt(t)
}

func TestT33T49OutputIsCleanedOverEveryRevision(t *testing.T) {
	t.Parallel()
	const (
		hidden = `a\u200b\u202e\u001b[31mb\udb40\udc41\udb40\udc42c`
		secret = `ghp_` + `A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8`
		event  = `\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n`
	)
	dirty := hidden + " " + secret + event
	content := fmt.Sprintf(
		`"content":[{"type":"text","text":"%s"},{"type":"new","own":"%s"},{"type":"resource","resource":{"uri":"file:///x","text":"%s"}}]`, dirty, dirty, dirty)
	up := ambush(t, &hostile{tools: tool("dirty"), answer: func(w http.ResponseWriter, id json.RawMessage,
		e execution, params json.RawMessage,
	) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: 5\nretry: 1\nevent: message\ndata: "+
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":"%s"}}`+"\r\n\r\n", progressToken(params), dirty)
		switch {
		case strings.Contains(e.arguments, "error"):
			fmt.Fprintf(w, "data: "+
				`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"%s","data":{"deep":["%s"]}}}`+
				"\n\n", id, dirty, dirty)
		default:
			fmt.Fprintf(w, "data: "+
				`{"jsonrpc":"2.0","id":%s,"result":{%s,"structuredContent":{"x":["%s"]},"_meta":{"m":"%s"},"other":"%s"}}`+"\n\n", id, content, dirty, dirty, dirty)
		}
	}})
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  up: "+private(up.URL)+"\n"))
	for _, revision := range revisions() {
		s := g.speak(t, g.mint(who{tenant: "acme", subject: "alice"}), revision)
		for _, way := range []string{"result", "error"} {
			all := s.story(t, `1`, "tools/call", "up__dirty", s.meta(`"progressToken":"mine"`)+
				fmt.Sprintf(`,"name":"up__dirty","arguments":{"way":%q}`, way))
			if len(all) != 2 {
				t.Errorf("%s: %d messages, want the progress and the answer: %s", revision, len(all), all)
			}
			for _, raw := range all {
				var plain any
				if err := json.Unmarshal(raw, &plain); err != nil {
					t.Fatalf("%s: %v", raw, err)
				}
				text := fmt.Sprintf("%q", plain)
				for _, bad := range []string{
					"\u200b", "\u202e", "\x1b", "\U000e0041", secret, `\u202e`,
					`\u200b`, `\x1b`, `\U000e0041`,
				} {
					if strings.Contains(text, bad) || strings.Contains(fmt.Sprint(plain), bad) {
						t.Errorf("%s %s: %q is in %s", revision, way, bad, raw)
					}
				}
			}
		}
	}
	g.unhurt(t)
}

func progressToken(params json.RawMessage) json.RawMessage {
	var p struct {
		Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
	}
	if json.Unmarshal(params, &p) != nil || p.Meta.ProgressToken == nil {
		return json.RawMessage("0")
	}
	return p.Meta.ProgressToken
}

func TestFloodOfNotificationsEndsAndHurtsNobodyElse(t *testing.T) {
	t.Parallel()
	var served atomic.Int32 // calls of others
	flood := 20_000
	if testing.Short() { // make nightly has all of it
		flood = 1_000
	}
	up := ambush(t, &hostile{tools: tool("flood"), answer: func(w http.ResponseWriter, id json.RawMessage,
		_ execution, params json.RawMessage,
	) {
		w.Header().Set("Content-Type", "text/event-stream")
		token := progressToken(params)
		// if others had to wait for the end, there were none
		for i := 0; i < flood || served.Load() < 10; i++ {
			if i >= flood {
				time.Sleep(10 * time.Millisecond)
			}
			if _, err := fmt.Fprint(w, ": comment\n\n"); err != nil {
				return
			}
			fmt.Fprintf(w, "data: "+
				`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`+"\n\n", token, i)
			fmt.Fprint(
				w, "data: "+`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","data":"x"}}`+"\n\n: comment\n\n")
			fmt.Fprint(w, "data: "+`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n\n")
			fmt.Fprintf(w, "data: "+`{"jsonrpc":"2.0","id":%d,"method":"sampling/createMessage","params":{}}`+
				"\n\n", i)
		}
		fmt.Fprintf(w, "data: "+`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`+"\n\n", id)
	}})
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  up: "+private(up.URL)+
		"\n  own: {builtin: [calculate]}\n"))
	before := g.gauge(t, "process_resident_memory_bytes")
	done := make(chan int, 2)
	for _, revision := range []string{"2025-11-25", modernRevision} {
		s := g.speak(t, g.mint(who{tenant: "acme", subject: "alice"}), revision)
		go func() {
			done <- len(s.story(t, `1`, "tools/call", "up__flood", s.meta(`"progressToken":1`)+
				`,"name":"up__flood","arguments":{}`))
		}()
	}
	token, ended := g.mint(who{tenant: "globex", subject: "bob"}), 0
	deadline := time.After(patient)
	for ended < 2 {
		if text, _ := g.text(t, token, "own__calculate", `{"expression":"1+1"}`); !strings.Contains(text,
			"2") {
			t.Fatalf("1+1 = %s", text)
		}
		served.Add(1)
		select {
		case n := <-done:
			t.Logf("a call got %d messages", n)
			ended++
		case <-deadline:
			t.Fatalf("the floods did not end within %v", patient)
		case <-time.After(10 * time.Millisecond): // the processors are for the floods
		}
	}
	if grown := g.gauge(t, "process_resident_memory_bytes") - before; grown > 100<<20 {
		t.Errorf("memory grew by %v MB", grown/(1<<20))
	}
	g.unhurt(t)
}
