package interop_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestEachTrapHasATest looks for a test of each of the thirty known traps of the
// protocol, wherever it is.
func TestEachTrapHasATest(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`(?m)^func TestTrap(\d\d)_\w+\(`)
	found := make(map[int]bool)
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, match := range named.FindAllSubmatch(source, -1) {
			number, err := strconv.Atoi(string(match[1]))
			if err != nil {
				return err
			}
			found[number] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for number := 1; number <= 30; number++ {
		if !found[number] {
			t.Errorf("no test is named TestTrap%02d_…", number)
		}
	}
}

// passing starts a gateway before one fake upstream whose names it leaves as they are.
func passing(t *testing.T, up *hostile) (g *gateway, token string) {
	t.Helper()
	g = besiege(t, twoTenants(`{allow: ["*", "prompt:*", "resource:*"]}`,
		fmt.Sprintf("  up: {url: %q, prefix: \"\", private_addresses: true}\n", up.URL)))
	return g, g.mint(who{tenant: "acme", subject: "alice"})
}

func TestTrap06_HarmlessOddThingsPassAsTheyAre(t *testing.T) {
	t.Parallel()
	const (
		schema = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"text":{"type":"string","x-vendor":1.0},"flag":{"type":"boolean","x-mcp-header":"Flag"},"where":{"$ref":"#/$defs/place"}},"$defs":{"place":{"$anchor":"place","type":"string"}}}`
		result = `{"content":[{"type":"image","mimeType":"image/png","data":"` + redPoint +
			`"},{"type":"resource_link","uri":"file:///a%20b?q=1&r=<x>","name":"l"}],"structuredContent":{"n":9007199254740993,"f":1.0}}`
	)
	up := ambush(t, &hostile{
		tools: `{"name":"odd","description":"a tool","inputSchema":` + schema + `}`,
		answer: func(w http.ResponseWriter, id json.RawMessage, _ execution, _ json.RawMessage) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
		},
	})
	g, token := passing(t, up)
	odd := []string{
		`{"text":"a\r\nb\tc"}`, `{"text":"SELECT * FROM users; DROP TABLE users; --"}`,
		`{"text":"<script>alert(1)</script> ${jndi:ldap://x} ../../etc/passwd"}`,
		`{"text":"ignore previous instructions"}`, `{"flag":null}`, `{"text":""}`,
		`{"unknown":{"deep":[1.0,1e2,-0]}}`, `{"text":" edges "}`,
	}
	for _, revision := range []string{"2025-11-25", modernRevision} {
		s := g.speak(t, token, revision)
		if list := s.ask(t, "1", "tools/list", "", ""); !strings.Contains(string(list.Result), schema) {
			t.Errorf("%s: the schema came as %s", revision, list.Result)
		}
		for _, arguments := range odd {
			before := len(up.executions())
			m := s.ask(t, "2", "tools/call", "odd", `"name":"odd","arguments":`+arguments)
			ran := up.executions()
			if m.Error != nil || len(ran) != before+1 || ran[before].arguments != arguments {
				t.Errorf("%s: %s: %d calls reached the upstream, the last %v; error %+v, result %s", revision,
					arguments, len(ran)-before, ran, m.Error, m.Result)
				continue
			}
			for _, part := range []string{
				redPoint, `file:///a%20b?q=1&r=<x>`, `9007199254740993`,
				`"f":1.0`,
			} {
				if !strings.Contains(string(m.Result), part) {
					t.Errorf("%s: the result came without %s: %s", revision, part, m.Result)
				}
			}
		}
	}
	started := time.Now()
	s := g.speak(t, token, modernRevision)
	for range 100 { // as many as a client asks when it starts
		if m := s.ask(t, "3", "tools/list", "", ""); m.Error != nil {
			t.Fatalf("after %v: %+v", time.Since(started), m.Error)
		}
	}
}

// A question of a legacy upstream is answered once, however often the client repeats its
// answer.
func TestTrap08_AParkedCallIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	up := newAsker(false)
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  up: "+private(abrupt(t, http.HandlerFunc(up.web)))+"\n"))
	c := g.crosser(who{tenant: "acme", subject: "alice"}, "up", modernRevision)
	c.marker = "once#"
	if err := c.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	params := `"name":"up__ask","arguments":{"marker":"once#"}`
	first, err := c.exchange(t.Context(), "1", "tools/call", "up__ask", params)
	if err != nil {
		t.Fatal(err)
	}
	var asked struct {
		ResultType    string
		InputRequests map[string]message
		RequestState  json.RawMessage
	}
	last := first[len(first)-1]
	if err := json.Unmarshal(last.Result, &asked); err != nil || asked.ResultType != "input_required" ||
		len(asked.InputRequests) != 1 {
		t.Fatalf("the call gave %s %+v, want one question", last.Result, last.Error)
	}
	for key, question := range asked.InputRequests {
		params += fmt.Sprintf(`,"requestState":%s,"inputResponses":{%q:%s}`, asked.RequestState, key,
			c.reply(question))
	}
	done := 0
	for i := range 3 {
		got, err := c.exchange(t.Context(), fmt.Sprint(2+i), "tools/call", "up__ask", params)
		if err != nil {
			t.Fatal(err)
		}
		if last := got[len(got)-1]; strings.Contains(string(last.Result), "done once#") {
			done++
		} else if last.Error == nil {
			t.Errorf("repeat %d gave %s", i, last.Result)
		}
	}
	if answers := up.answers(); done != 1 || answers != 1 {
		t.Errorf("%d repeats gave the result and the upstream was answered %d times, want once", done,
			answers)
	}
	g.unhurt(t)
}

func TestTrap11_WhatTheSuiteCannotAsk(t *testing.T) {
	t.Parallel()
	up := ambush(t, &hostile{tools: tool("ok")})
	g, token := passing(t, up)
	hello := func(revision string) string {
		return fmt.Sprintf(
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, revision)
	}
	for _, test := range []struct {
		name    string
		headers []string
		body    string
		status  int
	}{
		{"bad Origin, good Host", []string{
			"Authorization", "Bearer " + token, "Origin",
			"https://evil.example.com",
		}, hello("2025-11-25"), http.StatusForbidden},
		{"no token", nil, hello("2025-11-25"), http.StatusUnauthorized},
		{
			"token of another secret",
			[]string{
				"Authorization",
				"Bearer " + sign(map[string]any{
					"iss": "https://issuer.test/", "aud": g.url, "sub": "x",
					"org": "acme",
				}, strings.Repeat("x", 40)),
			},
			hello("2025-11-25"), http.StatusUnauthorized,
		},
		{"good", []string{"Authorization", "Bearer " + token}, hello("2025-11-25"), http.StatusOK},
	} {
		if got := post(t, g.url, test.body, test.headers...); got.status != test.status {
			t.Errorf("%s: %d %s, want %d", test.name, got.status, got.body, test.status)
		}
	}
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18",
		"2025-11-25": "2025-11-25",
		"2099-01-01": "2025-11-25", modernRevision: "2025-11-25", "2024-10-07": "2025-11-25",
	} {
		m := post(t, g.url, hello(asked), "Authorization", "Bearer "+token).last(t)
		if !strings.Contains(string(m.Result), `"protocolVersion":"`+want+`"`) {
			t.Errorf("asked for %s: %s, want %s", asked, m.Result, want)
		}
	}
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		got := g.speak(t, token, revision).post(t, batch, "MCP-Protocol-Version", revision)
		if want := revision == "2025-03-26"; (got.status == http.StatusOK) != want {
			t.Errorf("a batch of %s: %d %s", revision, got.status, got.body)
		}
	}
	old := g.speak(t, token, "2024-11-05")
	if names := old.names(t); !slices.Equal(names, []string{"ok"}) {
		t.Errorf("over HTTP+SSE tools = %v", names)
	}
}

func TestTrap15_NoAnswerIsCut(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 8<<10) // 128 KiB
	up := ambush(t, &hostile{tools: tool("long"), answer: func(w http.ResponseWriter, id json.RawMessage,
		_ execution, _ json.RawMessage,
	) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: "+
			`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`+"\n\n", id, long)
	}})
	g, token := passing(t, up)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 40 {
				text, isError := g.text(t, token, "long", `{"padding":"`+long[:32<<10]+`"}`)
				if isError || text != long {
					t.Errorf("%d bytes came, want %d", len(text), len(long))
				}
			}
		})
	}
	all.Wait()
	if got := len(up.executions()); got != 8*40 {
		t.Errorf("the upstream ran %d calls, want %d", got, 8*40)
	}
	g.unhurt(t)
}

func TestTrap16_SuiteRunsOnItsNodeAndOnLoopback(t *testing.T) {
	t.Parallel()
	binary, modules := node(t)
	out, err := exec.CommandContext(t.Context(), binary, "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < 22 {
		t.Errorf("node %s, want 22 or newer: the suite does not start on older ones", out)
	}
	for _, ask := range []string{"listen(0)", "listen(0, () => {})", "listen({port: 0})"} {
		cmd := exec.CommandContext(t.Context(), binary, "--require", "./bind-local.cjs", "-e",
			"const s = require('node:http').createServer()."+ask+
				"; s.on('listening', () => { console.log(s.address().address); s.close(); })")
		if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != "127.0.0.1" {
			t.Errorf("%s listens on %s (%v), want loopback", ask, out, err)
		}
	}
	if _, err := os.Stat(filepath.Join(modules,
		"@modelcontextprotocol/conformance/dist/index.js")); err != nil {
		t.Error(err)
	}
}

// What the Go SDK's server answers, word by word: the suite also accepts an error of a
// tool that is not there.
func TestTrap17_TextsAreExact(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"test_simple_text":            "This is a simple text response for testing.",
		"test_multiple_content_types": "This is text content",
		"test_tool_with_logging":      "Tool with logging executed successfully",
		"test_logging_tool":           "Log attempted; framework gates on _meta.../logLevel.",
		"test_error_handling":         "this tool intentionally returns an error for testing",
		"json_schema_2020_12_tool":    `JSON Schema 2020-12 tool called with: {"contactMethod":"phone","phone":"1"}`,
	}
	for _, modern := range []bool{false, true} {
		g := serve(t, tenant(fmt.Sprintf("  go: {url: %q, prefix: \"\", private_addresses: true}\n",
			goUpstream(t, modern))))
		t.Cleanup(g.kill) // others look at how it stops
		token := g.mint(who{tenant: "acme", subject: "alice"})
		for _, revision := range revisions() {
			s := g.speak(t, token, revision)
			for _, name := range slices.Sorted(maps.Keys(want)) {
				arguments := `{}`
				if name == "json_schema_2020_12_tool" {
					arguments = `{"contactMethod":"phone","phone":"1"}`
				}
				m := s.ask(t, `"w"`, "tools/call", name, fmt.Sprintf(`"name":%q,"arguments":%s`, name,
					arguments))
				var got toolResult
				if err := json.Unmarshal(m.Result, &got); err != nil || len(got.Content) == 0 ||
					got.Content[0].Text != want[name] || got.IsError != (name == "test_error_handling") {
					t.Errorf("%s before modern %v: %s gave %s %+v, want %q", revision, modern, name, m.Result,
						m.Error, want[name])
				}
			}
		}
	}
}

// TestTrap30_TheRequirementsAreFrozen counts the scenarios that the pinned suite
// requires.
func TestTrap30_TheRequirementsAreFrozen(t *testing.T) {
	t.Parallel()
	_, modules := node(t)
	pinned, err := os.ReadFile("package.json")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(pinned), `"@modelcontextprotocol/conformance": "0.2.0-alpha.12"`) {
		t.Error("the suite is not pinned to one version")
	}
	for revision, want := range map[string][2]int{"2025-11-25": {30, 18}, modernRevision: {37, 32}} {
		data, err := os.ReadFile(filepath.Join(modules, "@modelcontextprotocol/conformance/requirements",
			revision+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var got [2]int
		at := -1
		for line := range strings.Lines(string(data)) {
			switch line = strings.TrimRight(line, "\n"); {
			case line == "server:":
				at = 0
			case line == "client:":
				at = 1
			case line != "" && line[0] != ' ' && line[0] != '#':
				at = -1
			case strings.HasPrefix(line, "  - ") && at >= 0:
				got[at]++
			}
		}
		if got != want {
			t.Errorf("%s requires %d scenarios of servers and %d of clients, want %d and %d", revision,
				got[0], got[1], want[0], want[1])
		}
	}
}

// Ids and progress tokens that two clients share keep apart on the way, and come back
// with their own JSON type.
func TestTrap25_IDsAndTokensKeepApart(t *testing.T) {
	t.Parallel()
	up := ambush(t, &hostile{tools: tool("echo"), answer: func(w http.ResponseWriter, id json.RawMessage,
		e execution, params json.RawMessage,
	) {
		text, _ := json.Marshal(e.arguments) // a string always encodes
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: "+
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":%s}}`+"\n\n", progressToken(params), text)
		fmt.Fprintf(w, "data: "+`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`+
			"\n\n", id, text)
	}})
	g := besiege(t, twoTenants(`{allow: ["*"]}`, "  up: "+private(up.URL)+"\n"))
	var all sync.WaitGroup
	for i, id := range []string{`1`, `"1"`, `0`, `"0"`, `1`, `"1"`, `9007199254740991`, `"a b"`} {
		for _, revision := range revisions() {
			s := g.speak(t, g.mint(who{tenant: "acme", subject: fmt.Sprint("s", i)}), revision)
			all.Go(func() {
				for range 20 {
					got := s.story(t, id, "tools/call", "up__echo", s.meta(`"progressToken":`+id)+
						fmt.Sprintf(`,"name":"up__echo","arguments":{"from":"%d %s#"}`, i, revision))
					for _, raw := range got {
						text := string(raw)
						own := strings.Contains(text, `"id":`+id) ||
							strings.Contains(text, `"progressToken":`+id)
						if !own || !strings.Contains(text, fmt.Sprintf("%d %s#", i, revision)) {
							t.Errorf("%s with the id %s got %s", revision, id, text)
						}
					}
					if len(got) != 2 {
						t.Errorf("%s with the id %s got %d messages, want progress and answer", revision, id,
							len(got))
					}
				}
			})
		}
	}
	all.Wait()
	g.unhurt(t)
}
