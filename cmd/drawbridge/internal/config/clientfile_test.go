package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

func TestClientFilesAreRead(t *testing.T) {
	tests := []struct {
		name, text string
		want       Server
	}{
		{
			"command", `{"mcpServers": {"files": {"command": "npx", "args": ["-y", "x"]}}}`,
			Server{Name: "files", Command: "npx"},
		},
		{
			"vs code", `{"inputs": [], "servers": {"web": {"type": "http", "url": "https://example.com/mcp"}}}`,
			Server{Name: "web", URL: "https://example.com/mcp"},
		},
		{
			"httpUrl", `{"mcpServers": {"web": {"httpUrl": "https://example.com/mcp"}}}`,
			Server{Name: "web", URL: "https://example.com/mcp"},
		},
		{
			"serverUrl", `{"mcpServers": {"web": {"serverUrl": "https://example.com/${env:LEVEL}"}}}`,
			Server{Name: "web", URL: "https://example.com/debug"},
		},
		{"both lists", `{"mcpServers": {}, "servers": {"web": {"type": "http", "url": "https://example.com/mcp"}}}`, Server{Name: "web", URL: "https://example.com/mcp"}},
		{
			"input", `{"servers": {"web": {"url": "https://example.com/${input:level}"}}}`,
			Server{Name: "web", URL: "https://example.com/info"},
		},
		{
			"claude's default", `{"mcpServers": {"web": {"url": "https://example.com/${UNSET:-a}"}}}`,
			Server{Name: "web", URL: "https://example.com/a"},
		},
		{
			"sse", `{"mcpServers": {"old": {"type": "sse", "url": "https://example.com/sse"}}}`,
			Server{Name: "old", URL: "https://example.com/sse", Transport: "sse"},
		},
		{
			"sse, spelled otherwise",
			`{"mcpServers": {"old": {"transport": "sse", "url": "https://example.com/sse"}}}`,
			Server{Name: "old", URL: "https://example.com/sse", Transport: "sse"},
		},
		{
			"type without effect", `{"mcpServers": {"files": {"type": "sse", "command": "x"}}}`,
			Server{Name: "files", Command: "x"},
		},
		{
			"empty members", `{"mcpServers": {"files": {"url": "", "cwd": "", "command": "x", "args": [""], "env": {"A": ""}}}}`,
			Server{Name: "files", Command: "x"},
		},
		{
			"null members", `{"mcpServers": {"files": {"url": null, "cwd": null, "args": null, "env": null, "command": "x"}}}`,
			Server{Name: "files", Command: "x"},
		},
		{
			"name made valid", `{"mcpServers": {"My Long Server_Name!": {"command": "x"}}}`,
			Server{Name: "my-long-server-n", Command: "x"},
		},
		{
			"name without a letter", `{"mcpServers": {"日本": {"command": "x"}}}`,
			Server{Name: "server", Command: "x"},
		},
		{
			"name taken", `{"mcpServers": {"Toolbox": {"command": "x"}}}`,
			Server{Name: "toolbox-2", Command: "x"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found, err := importServers("servers.json", []byte(test.text), []string{"toolbox"},
				testEnvironment)
			if err != nil || len(found.Servers) != 1 || len(found.Skipped) != 0 {
				t.Fatalf("got %+v, error %v", found, err)
			}
			got := found.Servers[0]
			if got.Name != test.want.Name || got.Prefix != test.want.Name ||
				got.Command != test.want.Command || got.URL != test.want.URL ||
				got.Transport != test.want.Transport || !got.PrivateAddresses {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestServersThatCannotRunAreSkippedWithTheReason(t *testing.T) {
	tests := []struct{ name, entry, want string }{
		{"disabled", `{"command": "x", "disabled": true}`, "disabled"},
		{"unset variable", `{"command": "x", "env": {"A": "${UNSET}"}}`, "UNSET is not set"},
		{"switched off", `{"command": "x", "enabled": false, "env": {"A": "${UNSET}"}}`, "disabled"},
		{
			"asks its user", `{"command": "x", "env": {"A": "${input:api-key}"}}`,
			`the input "api-key" cannot be asked for here; set the environment variable INPUT_API_KEY`,
		},
		{
			"variable of the editor", `{"command": "x", "args": ["${config:a.b}"]}`,
			"known to the editor alone",
		},
		{"variable without an end", `{"command": "x", "args": ["${A"]}`, "without }"},
		{"directory is missing", `{"command": "x", "cwd": "nowhere"}`, `"nowhere" is not a directory`},
		{
			"two addresses", `{"url": "https://example.com/sse", "httpUrl": "https://example.com/mcp"}`,
			"two addresses",
		},
		{"arguments in one text", `{"command": "x", "args": "-y x"}`, "args must be a list"},
		{"text with a NUL", `{"command": "x", "args": ["\u0000"]}`, "NUL"},
		{"neither", `{"note": "x"}`, "neither"},
		{"both", `{"command": "x", "url": "https://example.com"}`, "both"},
		{"no object", `"x"`, "a server is an object"},
		{"bad scheme", `{"url": "file:///etc/passwd"}`, "http or https"},
		{
			"header twice", `{"url": "https://example.com", "headers": {"Authorization": "a", "authorization": "b"}}`,
			"the header authorization stands twice",
		},
		{"gateway's header", `{"url": "https://example.com", "headers": {"Host": "x"}}`, "sets Host itself"},
		{
			"variable without braces",
			`{"httpUrl": "https://example.com", "headers": {"Authorization": "Bearer $TOKEN"}}`, "as ${NAME}",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found, err := importServers("servers.json",
				[]byte("{\"mcpServers\": {\n \"a\": "+test.entry+"}}"), nil, testEnvironment)
			if err != nil || len(found.Servers) != 0 || len(found.Skipped) != 1 {
				t.Fatalf("got %+v, error %v, want one problem", found, err)
			}
			got := found.Skipped[0].String()
			if !strings.HasPrefix(got, "servers.json:2:") || !strings.Contains(got, `: "a": `) ||
				!strings.Contains(got, test.want) {
				t.Errorf("got %s, want its place, its name and: %s", got, test.want)
			}
		})
	}
}

// TestFilesThatAreNoServersAreRefused shows that each refusal has a place.
func TestFilesThatAreNoServersAreRefused(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", `s.json:1:1: this cannot be read: unexpected end`},
		{"a list", " []", `s.json:1:2: this is no object; wanted is {"mcpServers": `},
		{"nothing", "{}", `s.json:1:1: there are no servers in it; wanted is {"mcpServers": `},
		{"list of servers", "{\n\t\"mcpServers\": []}", `s.json:2:16: mcpServers is no object; wanted is`},
		{
			"same name twice", "{\"mcpServers\": {\"a\": {},\n  \"a\": {}}}",
			`s.json:2:3: this cannot be read: the same name twice`,
		},
		{"no end", "{", `s.json:1:2: this cannot be read: unexpected end`},
		{
			"no comma", "{\n  // é\n  \"é\": 1 \"b\": 2}",
			`s.json:3:10: this cannot be read: not JSON (comments`,
		},
		{"two commas", "{\"a\": [1,,]}", `s.json:1:10: this cannot be read: `},
		{"comma alone", "{\"a\": [,]}", `s.json:1:8: this cannot be read: `},
		{"comma before a member", "{,}", `s.json:1:2: this cannot be read: `},
		{
			"comment without an end", "{\n  /* \n\"mcpServers\": {}}",
			`s.json:2:3: a comment that does not end; close it with */`,
		},
		{"one slash", "{ / }", `s.json:1:3: this cannot be read: `},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := importServers("s.json", []byte(test.text), nil, testEnvironment)
			if got := errorText(err); !strings.HasPrefix(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestCommentsAndLastCommasAreRead reads a file as editors write it, where what looks
// like a comment stands in texts too.
func TestCommentsAndLastCommasAreRead(t *testing.T) {
	const text = "\ufeff// servers\r\n{\r\n\t/* of this\r\n\t   folder, */ \"servers\": {\r\n\t\t\"web\": { // one, two\r\n" +
		"\t\t\t\"url\": \"https://example.com/a//b\", \"headers\": {\"X\": \"/* \\\" , ] */\",},\r\n\t\t},\r\n" +
		"\t\t\"kid\": {\"command\": \"x\", \"args\": [\"a,]\", \"//\", /**/ 1 , /**/ // b\n]},\r\n\t},\r\n}\r\n// end"
	found, err := importServers("servers.json", []byte(text), nil, testEnvironment)
	if err != nil || len(found.Servers) != 2 || len(found.Ignored) != 0 {
		t.Fatalf("got %+v, error %v, want two servers", found, err)
	}
	if web := found.Servers[0]; web.URL != "https://example.com/a//b" || web.Headers["X"] != `/* " , ] */` {
		t.Errorf("got %+v", web)
	}
	if kid := found.Servers[1]; !slices.Equal(kid.Args, []string{"a,]", "//", "1"}) {
		t.Errorf("arguments: got %q", kid.Args)
	}
}

// TestWhatHasNoEffectIsSaid: nothing in the file is passed over in silence.
func TestWhatHasNoEffectIsSaid(t *testing.T) {
	const text = `{
  "inputs": [{"id": "key", "type": "promptString"}],
  "theme": "dark", "a": 1, "b": 2, "c": 3, "d": 4, "e": 5,
  "mcpServers": {
    "kid": {"type": "local", "command": "x", "autoApprove": ["y"],
      "envFile": ".env", "headers": {}, "env": {"A": null, "B": "1"}},
    "web": {"type": "stdio", "url": "https://example.com/mcp", "cwd": ".", "env": {}, "disabled": false}
  }
}`
	found, err := importServers("s.json", []byte(text), nil, testEnvironment)
	if err != nil || len(found.Servers) != 2 || len(found.Skipped) != 0 {
		t.Fatalf("got %+v, error %v, want two servers", found, err)
	}
	want := `s.json:3:3: "theme", "a", "b", "c", "d" and 1 more: servers are read from mcpServers and servers only
s.json:5:21: "local" has no effect: this server has command, and what it speaks is found out
s.json:5:46: "autoApprove" has no effect here
s.json:6:7: "envFile" has no effect here; put its values into env
s.json:6:26: headers has no effect: this server has command
s.json:6:49: "A" is null and has no effect
s.json:7:21: "stdio" has no effect: this server has url, and what it speaks is found out
s.json:7:64: cwd has no effect: this server has url
s.json:7:76: env has no effect: this server has url`
	if diff := cmp.Diff(want, RefusedError(sorted(found.Ignored)).Error()); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
}

// TestCommandsRunWhereTheFileSays: cwd is relative to the file, and the workspace is the
// folder that the file is about.
func TestCommandsRunWhereTheFileSays(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{".vscode", "sub"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ file, cwd, want string }{
		{"servers.json", "sub", "sub"},
		{"servers.json", "${workspaceFolder}/sub", "sub"},
		{"servers.json", filepath.Join(root, "sub"), "sub"},
		{".vscode/mcp.json", "..", ""},
		{".vscode/mcp.json", "${workspaceFolder}${/}sub", "sub"},
	} {
		text := fmt.Sprintf(
			`{"servers": {"kid": {"command": "x", "cwd": %q, "args": ["${workspaceFolderBasename}"]}}}`,
			test.cwd)
		found, err := importServers(filepath.Join(root, test.file), []byte(text), nil, testEnvironment)
		if err != nil || len(found.Servers) != 1 {
			t.Fatalf("%+v: got %+v, error %v", test, found, err)
		}
		kid := found.Servers[0]
		if want := filepath.Join(root, test.want); kid.Dir != want {
			t.Errorf("%+v: got %s, want %s", test, kid.Dir, want)
		}
		if want := filepath.Base(root); kid.Args[0] != want {
			t.Errorf("%+v: name of the workspace: got %s, want %s", test, kid.Args[0], want)
		}
	}
}

// FuzzClientFile: whatever the file holds, reading it ends and each thing said of it has
// a place. Only comments and last commas are blanked: strict JSON stays as it is, and so
// does what was blanked once.
func FuzzClientFile(f *testing.F) {
	for _, text := range []string{
		"", "{", `{"mcpServers": {"a": {"command": "x", "args": ["${input:b}", 1, null], "cwd": "."}}}`,
		"{\"servers\": { // a\n\"a\": {\"url\": \"http://b//c\", /* d */ \"headers\": {\"e\": null,},},},}",
		`[1,,]`, `"\`, "/*", "//", `{"a": "//\"", "b": [,]}`, "\ufeff{}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := importServers("fuzz.yaml", data, nil, testEnvironment)
		said := slices.Concat(found.Skipped, found.Ignored)
		if err != nil {
			refused, ok := errors.AsType[RefusedError](err)
			if !ok {
				t.Fatalf("got %T, want a RefusedError", err)
			}
			said = refused
		}
		for _, p := range said {
			if !placed.MatchString(strings.ReplaceAll(p.String(), "\n", " ")) {
				t.Fatalf("a problem without a place: %q", p)
			}
		}
		plain, unclosed := plainJSON(data)
		if unclosed >= 0 {
			return
		}
		if len(plain) != len(data) || bytes.Count(plain, []byte("\n")) != bytes.Count(data, []byte("\n")) {
			t.Fatalf("%q became %q: places moved", data, plain)
		}
		if strictjson.Check(data) == nil && !bytes.Equal(plain, data) {
			t.Fatalf("%q became %q: it was strict already", data, plain)
		}
		if again, _ := plainJSON(plain); !bytes.Equal(again, plain) {
			t.Fatalf("%q became %q, then %q", data, plain, again)
		}
	})
}

func TestCommandsOfAClientsFileHaveTimeToStart(t *testing.T) {
	found, err := importServers("servers.json", []byte(`{"mcpServers": {"a": {"command": "npx"}}}`), nil,
		testEnvironment)
	if err != nil || found.Servers[0].StartTimeout != time.Minute {
		t.Errorf("got %+v, %v, want a minute", found, err)
	}
}
