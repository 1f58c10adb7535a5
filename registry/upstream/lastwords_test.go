package upstream_test

import (
	"bufio"
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/mcp"
	"github.com/drawbridge-mcp/drawbridge/registry/upstream"
)

// complain writes the file that the first argument names to standard error, and fails.
func complain() {
	words, err := os.ReadFile(os.Args[1])
	if err != nil {
		words = []byte(err.Error())
	}
	_, _ = os.Stderr.Write(words) // nobody is left to tell
	os.Exit(3)
}

// once complains unless the file that the first argument names is missing; then it makes
// it.
func once() {
	f, err := os.OpenFile(os.Args[1], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		complain()
	}
	_, _ = f.WriteString("the seat is taken\n") // else the test fails
	_ = f.Close()
}

// TestChildForCallsThatFailsIsInTheLog starts a server that runs once at a time: its
// first child lists, and every call finds out why there is no second one.
func TestChildForCallsThatFailsIsInTheLog(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	cfg := command("once", t.TempDir()+"/seat")
	cfg.Revision = mcp.Revision2511 // else the first child may be one that is asked and started again
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := start(t, cfg)
	r.untilTool("echo")
	for range 3 {
		if _, err := r.call(t.Context(), "echo", `{}`, nil); err == nil {
			t.Fatal("a call was served without a child")
		}
	}
	const want = `level=WARN msg="no child for calls" server=up problem="child ended: exit status 3" stderr="the seat is taken"`
	if got := strings.Count(log.String(), want); got != 1 {
		t.Errorf("got %d lines, want one of %s in %s", got, want, log.String())
	}
}

// TestAChildThatCrashesInACallLeavesWords lets a tool end its child, which is not the one
// that lists: the log has what it wrote to standard error, cleaned and without what it
// was given in confidence. Of a server that crashes in each call it has one line in a
// minute.
func TestAChildThatCrashesInACallLeavesWords(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	cfg := command("legacy")
	cfg.Env["SHOP_KEY"] = "swordfish"
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := start(t, cfg)
	r.untilTool("crash")
	for range 3 {
		if _, err := r.call(t.Context(), "crash", `{}`, nil); err == nil {
			t.Fatal("a call was answered by a child that ended in it")
		}
	}
	const message = `level=WARN msg="a child for calls was lost" `
	eventually(t, "the log tells of the child",
		func() bool { return strings.Contains(log.String(), message) })
	r.must("echo", `{}`)
	r.stop()
	const want = message + `server=up problem="child ended: exit status 1" stderr="database file is locked | key: [REDACTED:SHOP_KEY]"`
	if got := log.String(); strings.Count(got, message) != 1 || !strings.Contains(got, want) {
		t.Errorf("got %s, want one line with %s", got, want)
	}
}

// TestAChildThatIsClosedLeavesNoWords closes the one child for calls again and again, to
// make room for another tenant.
func TestAChildThatIsClosedLeavesNoWords(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	cfg := command("chat")
	cfg.MaxChildren = 2
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := start(t, cfg)
	r.untilTool("answers")
	for _, tenant := range []string{"a", "b", "a"} {
		if _, _, _, err := r.round(t.Context(), "answers", person{tenant: tenant}.call(t, "", "", "",
			nil)); err != nil {
			t.Fatalf("tenant %s: %v", tenant, err)
		}
	}
	if got := log.String(); strings.Contains(got, "child for calls") {
		t.Errorf("got %s, want nothing of children that were closed", got)
	}
}

// complaint runs a child that fails with these words, which stand in a file, and returns
// what became known of it.
func complaint(t *testing.T, cfg upstream.Config, words string) upstream.Status {
	t.Helper()
	file := t.TempDir() + "/words"
	if err := os.WriteFile(file, []byte(words), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Args = append([]string{file}, cfg.Args...)
	r := start(t, cfg)
	r.until("an attempt ended", func() bool { return r.last().Tried })
	return r.last()
}

// nodeFails returns what Node.js writes when a module is missing, with so many lines of
// stack.
func nodeFails(frames int) string {
	return "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError [ERR_X]: Cannot find module 'swordfish'\n" +
		strings.Repeat("    at f (x.js:1:2)\n", frames) + "  code: 'X'\n}\nNode.js v22.1.0\n"
}

// TestLastWordsOfAFailingChildAreHidden starts children that say why they fail and then
// exit, and finds that in the status beside the exit status.
func TestLastWordsOfAFailingChildAreHidden(t *testing.T) {
	t.Parallel()
	given := command("complain", "--api-key", "open sesame", "--data", "/srv/files", "--auth-token=swordfish")
	given.Env["SHORT"], given.Env["SERVICE_KEY"], given.Env["LONGER"] = "abc",
		"correct horse\nbattery staple", "correct horse battery"
	for name, test := range map[string]struct{ words, want string }{
		"one line":              {"API_KEY is required\n", "API_KEY is required"},
		"a line without an end": {"Traceback\r\n\n  KeyError: 'API_KEY'", "Traceback|KeyError: 'API_KEY'"},
		"nothing":               {"", ""},
		"a variable's value":    {"bad key: battery staple, abc", "bad key: [REDACTED:SERVICE_KEY], abc"},
		"the longest of values": {"bad key: correct horse battery!", "bad key: [REDACTED:LONGER]!"},
		"arguments": {
			"open sesame in /srv/files, swordfish",
			"[REDACTED:--api-key] in /srv/files, [REDACTED:--auth-token]",
		},
		"a secret of another": {"ghp_" + "0123456789abcdefghijABCDEFGHIJ2Ow9Sw", "[REDACTED:github-pat]"},
		"escapes": {
			"\x1b[31mred\x1b[0m\x07 \x1b]0;title\x07and\u202e more\xff",
			"red and more\uFFFD",
		},
		"a value with escapes in": {"sword\x1b[1mfish", "[REDACTED:--auth-token]"},
		"many lines": {
			strings.Repeat("x\n", 50) + "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n",
			"1|2|3|4|5|6|7|8|9|10",
		},
		"an error before a stack": {
			nodeFails(12),
			"Error [ERR_X]: Cannot find module '[REDACTED:--auth-token]'|" +
				strings.Repeat("at f (x.js:1:2)|", 7) + "code: 'X'|}|Node.js v22.1.0",
		},
		"an error long ago": {nodeFails(300), strings.Repeat("at f (x.js:1:2)|", 7) +
			"code: 'X'|}|Node.js v22.1.0"},
		"a long line": {strings.Repeat("é", 200) + "\nthe end", strings.Repeat("é", 150) +
			"…|the end"},
		"a secret on the cut": {strings.Repeat("x", 295) + "battery staple", strings.Repeat("x", 295) +
			"[REDA…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := complaint(t, given, test.words)
			if got.Problem != "child ended: exit status 3" {
				t.Errorf("problem: got %q, want the exit status", got.Problem)
			}
			if said := strings.Join(got.Said, "|"); said != test.want {
				t.Errorf("said: got %q, want %q", said, test.want)
			}
		})
	}
}

// TestMegabytesOfLastWordsAreBounded lets a child write more than is read without pauses,
// with and without line breaks.
func TestMegabytesOfLastWordsAreBounded(t *testing.T) {
	t.Parallel()
	for name, words := range map[string]string{
		"lines":    strings.Repeat(strings.Repeat("y", 1023)+"\n", 2<<10),
		"one line": strings.Repeat("y", 2<<20),
	} {
		got := complaint(t, command("complain"), words+"\nAPI_KEY is required")
		size := 0
		for _, line := range got.Said {
			size += len(line)
		}
		if n := len(got.Said); n == 0 || n > 11 || size > 11*310 || got.Said[n-1] != "API_KEY is required" {
			t.Errorf("%s: got %d lines of %d bytes, want at most 10 of 300 with the last one: %.400q", name,
				n, size, got.Said)
		}
	}
}

// TestFloodOnStandardErrorStaysOutOfTheLog lets a child that serves write a megabyte:
// above the lowest level the log has nothing of it, and there a bounded number of lines.
func TestFloodOnStandardErrorStaysOutOfTheLog(t *testing.T) {
	t.Parallel()
	for level, most := range map[slog.Level]int{slog.LevelInfo: 0, slog.LevelDebug: 20} { // in a second
		began := time.Now()
		var log lockedBuffer
		cfg := command("legacy")
		cfg.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: level}))
		r := start(t, cfg)
		r.untilTool("stderr")
		r.must("stderr", `{}`)
		r.stop()
		lines := 0
		for scanner := bufio.NewScanner(strings.NewReader(log.String())); scanner.Scan(); {
			if bytes.Contains(scanner.Bytes(), []byte("standard error")) {
				lines++
			}
		}
		if seconds := int(time.Since(began).Seconds()) + 1; lines > most*seconds {
			t.Errorf("level %s: got %d lines in %d s, want at most %d a second", level, lines, seconds, most)
		}
	}
}
