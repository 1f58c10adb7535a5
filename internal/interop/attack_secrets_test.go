package interop_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestT19NoCanaryIsEverWritten(t *testing.T) {
	t.Parallel()
	up := ambush(t, &hostile{
		tools: tool("ok") + "," + tool("echo"),
		answer: func(w http.ResponseWriter, id json.RawMessage, e execution, _ json.RawMessage) {
			switch {
			case strings.Contains(e.arguments, "rpc"):
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(
					w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"canary-result-1","data":{"d":"canary-result-2"}}}`, id)
			case strings.Contains(e.arguments, "status"):
				w.Header().Set("Canary-Result", "canary-result-3")
				http.Error(w, "canary-result-4 "+e.header.Get("Authorization"), http.StatusBadGateway)
			case strings.Contains(e.arguments, "garbage"):
				fmt.Fprintf(w, `{"canary-result-5":`)
			case strings.Contains(e.arguments, "moved"):
				http.Redirect(w, &http.Request{}, "http://canary-result-6.test/",
					http.StatusTemporaryRedirect)
			default:
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(
					w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"canary-result-7"}]}}`, id)
			}
		},
	})
	servers := "  up: {url: \"" + up.URL +
		"/canary-path?key=canary-query\", private_addresses: true, headers: {Authorization: \"Bearer canary-upstream\", X-Key: canary-key}}\n"
	g := besiege(t, twoTenants(`{allow: ["*"]}`, servers))
	var bodies strings.Builder
	for _, revision := range revisions() {
		token := g.mint(who{tenant: "acme", subject: "alice", client: "canary-free"})
		s := g.speak(t, token, revision)
		for _, way := range []string{"plain", "rpc", "status", "garbage", "moved"} {
			m := s.ask(t, `"`+way+`"`, "tools/call", "up__echo",
				fmt.Sprintf(`"name":"up__echo","arguments":{"way":%q,"secret":"canary-argument"}`, way))
			if way != "plain" && m.Error != nil {
				fmt.Fprintf(&bodies, "%s %s\n", m.Error.Message, m.Error.Data)
			}
		}
		for _, broken := range []string{
			`{"a":"canary-argument`, `{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"canary-argument"}`,
			`["canary-argument"]`, `"canary-argument"`, "canary-argument",
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"canary-argument"}`,
			`{"jsonrpc":"canary-argument","id":1,"method":"ping"}`,
			`{"jsonrpc":"2.0","id":["canary-argument"],"method":"ping"}`,
			`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":"canary-argument"}}`,
		} {
			bodies.Write(s.post(t, broken).body)
		}
		for _, bad := range []string{
			token + "canary-token", "canary-token",
			sign(map[string]any{"iss": "canary-token", "sub": "canary-token", "aud": "canary-token"},
				"canary-token"),
		} {
			// which the log names
			a := get(t, http.MethodPost, s.endpoint, "Authorization", "Bearer "+bad, "Origin",
				"https://elsewhere.test")
			bodies.Write(a.body)
			bodies.Write(get(t, http.MethodPost, s.endpoint, "Authorization", "Bearer "+bad).body)
		}
		if s.session != "" {
			bodies.Write(get(t, http.MethodDelete, g.url, "Authorization", "Bearer "+token, "Mcp-Session-Id",
				s.session+"canary-token").body)
		}
		get(t, http.MethodGet, "http://"+g.addr+"/elsewhere?x=canary-token", "Authorization", "Bearer "+token,
			"User-Agent", "canary-token", "X-Forwarded-For", "canary-token")
		found := strings.Contains(g.out.String(), token[len(token)-43:])
		if found {
			t.Errorf("%s: the log holds the signature of a token", revision)
		}
	}
	audit, err := os.ReadFile(filepath.Join(g.dir, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	canaries := []string{
		"canary-token", "canary-upstream", "canary-key", "canary-argument", "canary-result",
		"canary-query", hmacSecret,
	}
	t.Attr("canaries", fmt.Sprint(len(canaries)))
	for place, text := range map[string]string{
		"log": g.out.String(), "audit": string(audit), "metrics": fetch(t, g.operator+"/metrics"),
		"readyz":  fetch(t, g.operator+"/readyz"),
		"healthz": fetch(t, g.operator+"/healthz"), "error bodies": bodies.String(),
	} {
		for _, canary := range canaries {
			// what the upstream says in an error is its own
			if at := strings.Index(text, canary); at >= 0 &&
				(place != "error bodies" || canary != "canary-result") {
				t.Errorf("%s in the %s: …%s…", canary, place, text[max(0, at-200):min(len(text), at+100)])
			}
		}
	}
	if len(up.executions()) != 5*len(revisions()) {
		t.Errorf("the upstream ran %d calls, want %d", len(up.executions()), 5*len(revisions()))
	}
	g.unhurt(t)
}

func TestT48ChildrenGetNothingOfTheGateway(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := besiege(t, twoTenants(`{allow: ["*"]}`,
		fmt.Sprintf(
			"  kid: {command: %q, args: [\"$HOME\", \"`id`\", \"; id\"], env: {%s: confess, GIVEN: \"yes\"}}\n  own: {builtin: [calculate]}\n", binary, childRole)))
	token := g.mint(who{tenant: "acme", subject: "alice"})
	g.speak(t, token, "2024-11-05") // a stream that is open while the child starts
	text, _ := g.text(t, token, "kid__confess", `{}`)
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name, value, _ := strings.Cut(rest, "="); kind {
		case "env":
			if name != childRole && name != "GIVEN" && name != "PATH" && name != "HOME" && name != "LANG" &&
				name != "TMPDIR" && name != "USER" && name != "LOGNAME" && name != "SHELL" && name != "TERM" {
				t.Errorf("the child was given %s=%s", name, value)
			}
		case "fd":
			number, target, _ := strings.Cut(rest, " ")
			if number > "2" && (strings.Contains(target, "socket") || strings.Contains(target, g.dir)) {
				t.Errorf("the child inherited %s", rest)
			}
		}
	}
	for _, want := range []string{"arg $HOME", "arg `id`", "arg ; id", "env GIVEN=yes"} {
		if !strings.Contains(text, want) {
			t.Errorf("the child was not given %q as it stands: %s", want, text)
		}
	}
	if strings.Contains(text, hmacSecret) {
		t.Error("the child knows the secret")
	}
}

func TestCrashLoopOfAChildHurtsNobodyElse(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := settle(t)
	servers := fmt.Sprintf(
		"  bad: {command: %q, env: {%s: crash}}\n  gone: {command: /nonexistent/program}\n  own: {builtin: [calculate]}\n", binary, childRole)
	g.configure(t, tenant(servers))
	g.launch(t)
	token := g.token(t)
	for i := range 200 {
		if text, isError := g.text(t, token, "own__calculate", fmt.Sprintf(`{"expression":"%d+1"}`,
			i)); isError || !strings.Contains(text, fmt.Sprint(i+1)) {
			t.Fatalf("%d+1 = %s", i, text)
		}
	}
	if m := g.call(t, token, "bad__x", `{}`); m.Error == nil {
		t.Errorf("a tool of the crashing server gave %s", m.Result)
	}
	if zombies := zombiesOf(t, g.cmd.Process.Pid); zombies > 1 {
		t.Errorf("%d zombies", zombies)
	}
	for line := range strings.Lines(metric(t, g, "drawbridge_upstream_reconnects_total")) {
		if fields := strings.Fields(line); len(fields[1]) > 2 { // 100 and more
			t.Errorf("started too often in a few seconds: %s", line)
		}
	}
	g.unhurt(t)
}
