package interop_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stdio returns a servers entry that runs a pinned package over stdio.
func stdio(t *testing.T, pkg string, arguments ...string) string {
	t.Helper()
	binary, modules := node(t)
	list, err := json.Marshal(append([]string{filepath.Join(modules, "@modelcontextprotocol", pkg, "dist",
		"index.js")}, arguments...))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("{command: %q, args: %s, env: {MEMORY_FILE_PATH: %q}}", binary, list,
		filepath.Join(t.TempDir(), "memory.jsonl"))
}

func tenant(servers string) string {
	names := make([]string, 0, 4)
	for line := range strings.Lines(servers) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			names = append(names, name)
		}
	}
	return fmt.Sprintf(
		"tenants:\n  acme: {servers: [%s], rules: [{allow: [\"*\"]}], limits: %s}\nservers:\n%s",
		strings.Join(names, ", "), generous, servers)
}

// everythingOverHTTP runs server-everything over Streamable HTTP and returns its address.
func everythingOverHTTP(t *testing.T) string {
	t.Helper()
	_, modules := node(t)
	addr := "127.0.0.1:" + strconv.Itoa(freePort(t))
	nodeProcess(t, []string{"PORT=" + addr[strings.LastIndexByte(addr, ':')+1:]},
		filepath.Join(modules, "@modelcontextprotocol/server-everything/dist/index.js"), "streamableHttp")
	eventually(t, "server-everything listens", func() bool { return listening(addr) })
	return "http://" + addr + "/mcp"
}

func TestRealUpstreamsSideBySide(t *testing.T) {
	t.Parallel()
	web := everythingOverHTTP(t)
	legacy := goUpstream(t, false)
	modern := goUpstream(t, true)
	files := t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "note.txt"), []byte("a note from the file system\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	g := serve(t, tenant(fmt.Sprintf(`  every: %s
  web: {url: %q, private_addresses: true}
  files: %s
  memory: %s
  gold: {url: %q, private_addresses: true}
  gonew: {url: %q, private_addresses: true}
`, stdio(t, "server-everything", "stdio"), web, stdio(t, "server-filesystem", files), stdio(t, "server-memory"), legacy, modern)))
	token := g.token(t)

	calls := []struct{ tool, arguments, want string }{
		{"every__echo", `{"message":"over stdio"}`, "over stdio"},
		{"every__get-sum", `{"a":2,"b":40}`, "42"},
		{"web__echo", `{"message":"over Streamable HTTP"}`, "over Streamable HTTP"},
		{
			"files__read_text_file", `{"path":` + strconv.Quote(filepath.Join(files, "note.txt")) + `}`,
			"a note from the file system",
		},
		{
			"memory__create_entities",
			`{"entities":[{"name":"gate","entityType":"thing","observations":["it opens"]}]}`, "it opens",
		},
		{"memory__read_graph", `{}`, "it opens"},
		{"gold__test_simple_text", `{}`, "simple text"},
		{"gonew__test_simple_text", `{}`, "simple text"},
	}
	for _, c := range calls {
		if text, isError := g.text(t, token, c.tool, c.arguments); isError ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s(%s) = %q, isError %v; want %q in it", c.tool, c.arguments, text, isError, c.want)
		}
	}
	if text, isError := g.text(t, token, "every__get-sum", `{"a":"two"}`); !isError ||
		!strings.Contains(text, "a") {
		t.Errorf("wrong arguments gave %q, isError %v; want a tool error that names a", text, isError)
	}
}

func TestUpstreamKilledWhileIdleLeavesAndReturns(t *testing.T) {
	t.Parallel()
	addr := "127.0.0.1:" + strconv.Itoa(freePort(t))
	upstream := goUpstreamAt(t, addr, false)
	g := serve(
		t, tenant(
			fmt.Sprintf(
				"  go: {url: \"http://%s/mcp\", private_addresses: true, grace: 1s}\n  own: {builtin: [calculate]}\n", addr)))
	token := g.token(t)
	has := func(name string) bool { return slices.Contains(g.tools(t, token), name) }
	if !has("go__test_simple_text") {
		t.Fatalf("tools = %v, want go__test_simple_text", g.tools(t, token))
	}
	upstream.kill()
	eventually(t, "the tools of the dead upstream leave the list",
		func() bool { return !has("go__test_simple_text") })
	if text, _ := g.text(t, token, "own__calculate", `{"expression":"6*7"}`); !strings.Contains(text, "42") {
		t.Errorf("own__calculate = %q while the other server is dead, want 42", text)
	}
	goUpstreamAt(t, addr, false)
	eventually(t, "its tools return", func() bool { return has("go__test_simple_text") })
	if text, isError := g.text(t, token, "go__test_simple_text", `{}`); isError ||
		!strings.Contains(text, "simple text") {
		t.Errorf("after its return test_simple_text = %q, isError %v", text, isError)
	}
}

// TestStdioChildKilledMidCallIsSaidAndReplaced kills a child while a call is in work: the
// one that runs it, and the one that lists and watches, with which all sessions of the
// server end. It also kills the keeper of the child in its place.
func TestStdioChildKilledMidCallIsSaidAndReplaced(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name            string
		listing, keeper bool
	}{
		{"the child of the call", false, false},
		{"the child that lists", true, false},
		{"the keeper of the call's", false, true},
		{"the keeper of the one that lists", true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			notes := t.TempDir()
			g := serve(t, tenant(fmt.Sprintf("  kid: {command: %q, env: {%s: matrix-legacy, %s: %q}}\n",
				binary, childRole, notesFolder, notes)))
			token := g.token(t)
			lister := childOf(t, g.cmd.Process.Pid, 0)
			answered := make(chan message, 1)
			go func() { answered <- g.call(t, token, "kid__hang", `{"marker":"x"}`) }()
			eventually(t, "the call is in work", func() bool {
				_, err := os.Stat(filepath.Join(notes, "hanging-x"))
				return err == nil
			})
			victim := lister
			if !test.listing {
				victim = childOf(t, g.cmd.Process.Pid, lister)
			}
			if !test.keeper {
				victim = childOf(t, victim, 0)
			}
			if victim == 0 {
				t.Fatal("there is no such child")
			}
			if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			select {
			case m := <-answered:
				if m.Error == nil || m.Error.Code != -32603 || !strings.Contains(string(m.Error.Data),
					"DB-UPSTREAM-LOST") {
					t.Errorf("the interrupted call gave %+v with result %s, want -32603 DB-UPSTREAM-LOST",
						m.Error, m.Result)
				}
			case <-time.After(patient):
				t.Fatal("the interrupted call was not answered")
			}
			eventually(t, "a new child serves", func() bool {
				m := g.call(t, token, "kid__echo", `{"marker":"again"}`)
				return m.Error == nil && strings.Contains(string(m.Result), "echo again")
			})
			eventually(t, "no zombies are below the gateway",
				func() bool { return zombiesOf(t, g.cmd.Process.Pid) == 0 })
		})
	}
}

// childOf returns the process id of a living child of pid that is not the other one, 0
// when it has none.
func childOf(t *testing.T, pid, other int) int {
	t.Helper()
	for id, stat := range children(t, pid) {
		if stat != "Z" && id != other {
			return id
		}
	}
	return 0
}

func zombiesOf(t *testing.T, pid int) int {
	t.Helper()
	count := 0
	for _, stat := range children(t, pid) {
		if stat == "Z" {
			count++
		}
	}
	return count
}

// children returns the state of each child of pid, by process id.
func children(t *testing.T, pid int) map[int]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "pid=,stat=", "--ppid",
		strconv.Itoa(pid)).Output()
	if err != nil {
		return nil // ps ends with 1 when there is none
	}
	found := make(map[int]string)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if id, err := strconv.Atoi(fields[0]); err == nil {
			found[id] = fields[1][:1]
		}
	}
	return found
}

// metric returns the lines of /metrics that begin with name.
func metric(t testing.TB, g *gateway, name string) string {
	t.Helper()
	var found strings.Builder
	for line := range strings.Lines(fetch(t, g.operator+"/metrics")) {
		if strings.HasPrefix(line, name) {
			found.WriteString(line)
		}
	}
	return found.String()
}
